// Writing a file so that nobody ever sees half of it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stringline {

// Writes `text` beside `path` and renames it into place; folders that are missing are made. On an
// error no file is left behind and an earlier one stays as it was. The message names the path.
// A signal that ends the process meanwhile leaves no file behind either.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view text);

}  // namespace stringline
