// ast -> Program: the definition of every name, and the allowed place of every statement.
#pragma once

#include <optional>
#include <string>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Resolves a schedule. Reports all findings, up to a hundred; with any, returns nothing. For a
// derived schedule, `rank_variable` is the name of the rank in the rank block of its root.
std::optional<Program> Resolve(const ast::Schedule& schedule, Diagnostics* diagnostics,
                               const std::string& rank_variable = "");

// The deepest nesting of calls and expressions together, over all functions called.
inline constexpr int kDeepestEvaluation = 1000;

}  // namespace stringline
