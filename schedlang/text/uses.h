// Text -> ast, with the files that it uses, and those that they use.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Gives the text that `use "NAME";` means in the file at `user`. Its path says which file it is:
// two that have the same path are one file. The error is told at the `use`.
using ReadUsed =
    std::function<absl::StatusOr<Source>(const std::string& name, const std::string& user)>;

// Parses the text and everything that it uses; every file is read once. The texts of those files
// are appended to *source, so that every place of the result lies in it. Findings are those of
// Parse, with a note that says where the file is used, and, at the `use`: a file that cannot be
// read, one that uses the file that uses it, one that is used twice, and a schedule whose name is
// taken. Nothing after a finding.
std::optional<ast::File> ParseWithUses(Source* source, const ReadUsed& read,
                                       Diagnostics* diagnostics);

// How deep files may use files, and how much text they may be together.
inline constexpr int kDeepestUse = 100;
inline constexpr uint64_t kMostUsedBytes = 256u << 20;

}  // namespace stringline
