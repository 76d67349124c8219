// A file that is written beside its place and renamed once it is whole, so nobody ever reads half
// of a file under its final name.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/made_folders.h"

namespace stringline {

// Writes all bytes to an open file. Returns 0 or the system's error number.
int WriteAll(int file, absl::string_view bytes);

// Every error names the path and the system's reason.
class NewFile {
 public:
  // Opens `path`.PID.tmp; makes missing folders. All of them are removed again without Commit.
  static absl::StatusOr<NewFile> Create(const std::string& path);
  // Opens `part` and empties an existing file. Without Commit the file stays, for inspection.
  static absl::StatusOr<NewFile> CreateAs(const std::string& path, const std::string& part);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // On return the system has the bytes, even if this process dies.
  absl::Status Append(absl::string_view bytes);
  // Removes the part, and the folders made for it.
  void Discard();
  // Forces all bytes to the disk and renames the file to `path`, replacing an earlier file.
  absl::Status Commit();

 private:
  NewFile(std::string path, std::string part, bool keeps);
  absl::Status Open(int mode);
  absl::Status CannotWrite(int error) const;

  int file_ = -1;
  std::string path_;
  std::string part_;
  bool keeps_ = false;  // keep the part when the object ends without Commit
  MadeFolders folders_;
};

}  // namespace stringline
