// Opens a file that is read piece by piece, or mapped.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace stringline {

// A descriptor, which the caller closes. Does not wait for anybody to open the other end of a pipe.
// Errors begin with the path: NotFound; PermissionDenied for all else that keeps it from opening.
absl::StatusOr<int> OpenToRead(const std::string& path);

}  // namespace stringline
