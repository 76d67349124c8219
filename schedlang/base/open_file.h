// Opens a file to read it in pieces or to map it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace stringline {

// A descriptor, which the caller closes. Does not wait for a pipe's writer. Errors begin with the
// path: NotFound; PermissionDenied for every other reason.
absl::StatusOr<int> OpenToRead(const std::string& path);

}  // namespace stringline
