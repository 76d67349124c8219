// Writes a file atomically: readers see the old file or the whole new file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

// Writes `text` beside `path` and renames it into place; makes missing folders. After an error no
// new file remains and an earlier file is unchanged; the message names the path. A signal that ends
// the process meanwhile leaves no file behind either.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view text);

}  // namespace stringline
