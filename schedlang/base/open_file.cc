#include "schedlang/base/open_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stringline {

absl::StatusOr<int> OpenToRead(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file >= 0) return file;
  const int error = errno;
  const std::string message = absl::StrCat(path, ": cannot be read: ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::PermissionDeniedError(message);
}

}  // namespace stringline
