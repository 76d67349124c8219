// Writing a file so that nobody ever sees half of it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

// Writes `text` beside `path` and renames it into place. On an error nothing is left behind and an
// earlier file stays as it was. The message names the path.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view text);

}  // namespace stringline
