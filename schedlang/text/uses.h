// Text -> ast, with all files in its `use` statements, recursively.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/text/ast.h"

namespace stringline {

// Reads the text of `use "NAME";` in the file `user`. The path of the result identifies the file:
// equal paths are the same file. The error is reported at the `use`.
using ReadUsed =
    std::function<absl::StatusOr<Source>(const std::string& name, const std::string& user)>;

// Parses the text and all files used, directly or not; every file is read once. Their texts are
// appended to *source, so all places of the result lie in it. Findings are those of Parse, with a
// note at the `use`; and, at the `use`: a file that cannot be read, a cycle of files, a file used
// twice, and a schedule whose name is taken. Nothing after a finding.
std::optional<ast::File> ParseWithUses(Source* source, const ReadUsed& read,
                                       Diagnostics* diagnostics);

// The deepest chain of files that use files, and the most bytes of text in all of them.
inline constexpr int kDeepestUse = 100;
inline constexpr uint64_t kMostUsedBytes = 256u << 20;

}  // namespace stringline
