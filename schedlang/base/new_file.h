// A file that is written beside its place and renamed into it when it is whole: nobody ever sees
// half of it under its name.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

// Writes all bytes to an open file. Returns 0 or the system's error number.
int WriteAll(int file, absl::string_view bytes);

// Every error names the path and what the system says.
class NewFile {
 public:
  // Opens `path`.PID.tmp; folders that are missing are made. Without Commit it is removed again.
  static absl::StatusOr<NewFile> Create(const std::string& path);
  // Opens `part`, emptied if it is there. Without Commit it stays, for whoever wants to look at it.
  static absl::StatusOr<NewFile> CreateAs(const std::string& path, const std::string& part);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // The bytes are with the system when it returns, whatever becomes of this process.
  absl::Status Append(absl::string_view bytes);
  // Forces all to the disk and renames it to `path`, in the place of what was there.
  absl::Status Commit();

 private:
  NewFile(int file, std::string path, std::string part, bool keeps);
  absl::Status CannotWrite(int error) const;

  int file_ = -1;
  std::string path_;
  std::string part_;
  bool keeps_ = false;  // the part, when it ends without Commit
};

}  // namespace stringline
