// ast -> Program: which definition every name means, and whether everything stands where it may.
#pragma once

#include <optional>
#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Resolves one schedule. Reports all findings it can, up to a hundred; with any, gives nothing. Of
// a derived schedule, `rank_variable` is how the rank block at the root of it calls the rank.
std::optional<Program> Resolve(const ast::Schedule& schedule, Diagnostics* diagnostics,
                               const std::string& rank_variable = "");

// How deep calls and expressions may nest together, over all the functions a call goes through.
inline constexpr int kDeepestEvaluation = 1000;

}  // namespace stringline
