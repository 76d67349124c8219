// What a FILE of a command line names: a file; `-`, standard input; or, where there is no such
// file, a schedule of the library by its name alone: `zb_v`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "schedlang/base/source.h"

namespace stringline {

// Errors: those of ReadSource; InvalidArgument when standard input is asked for twice, or holds no
// text.
absl::StatusOr<Source> OpenSource(const std::string& file);

}  // namespace stringline
