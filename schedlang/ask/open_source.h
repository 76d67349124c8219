// Opens the FILE of a command line: a file; `-`, standard input; or, without such a file, a
// schedule of the library by its name alone: `zb_v`.
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

// The name of a schedule in headers: the library's, "1f1b", where the source is the library's own
// text and no schedule in it is asked for by name (`schedule` is ""); or else its name in the text.
std::string ShownName(const Source& source, const std::string& schedule,
                      const std::string& name_in_text);

// The library's schedule of this name, whatever files exist. Error: NotFound.
absl::StatusOr<Source> OpenOfLibrary(const std::string& name);

// A file's text that an editor has not saved yet; null if there is none for the path.
using UnsavedText = std::function<const std::string*(const std::string& path)>;

// Opens `use "NAME";` in the text that OpenSource gave for `user`: a file beside `user`, in the
// working directory for standard input; or, without such a file, a schedule of the library by its
// name alone. Schedules of the library use only the library. Errors: as OpenSource.
absl::StatusOr<Source> OpenUsed(const std::string& name, const std::string& user,
                                const UnsavedText& unsaved = {});

// ParseWithUses, with files as OpenUsed reads them.
std::optional<ast::File> ParseWithUses(Source* source, Diagnostics* diagnostics);

}  // namespace stringline
