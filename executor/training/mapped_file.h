// A file that is mapped to be read: its pages are read when somebody looks at them. Truncating the
// file while it is mapped kills the process.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

class MappedFile {
 public:
  // Errors begin with the path: NotFound, PermissionDenied; InvalidArgument for a file that is
  // empty or not regular; Unavailable for a file that cannot be mapped.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile() = default;  // of no bytes
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::string_view bytes() const { return bytes_; }

 private:
  absl::string_view bytes_;
};

}  // namespace stringline
