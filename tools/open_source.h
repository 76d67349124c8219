// What a FILE of a command line names: a file; `-`, standard input; or, where there is no such
// file, a schedule of the library by its name alone: `zb_v`.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "schedlang/text/uses.h"

namespace stringline {

// Errors: those of ReadSource; InvalidArgument when standard input is asked for twice, or holds no
// text.
absl::StatusOr<Source> OpenSource(const std::string& file);

// The library's schedule of that name, whatever files there are. Error: NotFound.
absl::StatusOr<Source> OpenOfLibrary(const std::string& name);

// A text at a path that is not written to its file yet, as an editor has it; null if there is none.
using UnsavedText = std::function<const std::string*(const std::string& path)>;

// What `use "NAME";` means in the text that OpenSource gave for `user`: a file beside it, in the
// working directory for standard input; or, where there is no such file, a schedule of the library
// by its name alone. What the library's schedules use is in the library. Errors as of OpenSource.
absl::StatusOr<Source> OpenUsed(const std::string& name, const std::string& user,
                                const UnsavedText& unsaved = {});

// ParseWithUses, with files as OpenUsed reads them.
std::optional<ast::File> ParseWithUses(Source* source, Diagnostics* diagnostics);

}  // namespace stringline
