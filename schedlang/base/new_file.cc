#include "schedlang/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// A rename reaches the disk with its folder. Some file systems cannot sync a folder; their error is
// ignored.
void ForceFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int file = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

}  // namespace

int WriteAll(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(written);
  }
  return 0;
}

NewFile::NewFile(std::string path, std::string part, bool keeps)
    : path_(std::move(path)), part_(std::move(part)), keeps_(keeps) {}

NewFile::NewFile(NewFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      keeps_(other.keeps_),
      folders_(std::move(other.folders_)) {}

absl::Status NewFile::Open(int mode) {
  file_ = open(part_.c_str(), mode | O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file_ >= 0) return absl::OkStatus();
  if (errno != ENOENT) return CannotWrite(errno);
  const std::error_code error =
      folders_.Make(std::filesystem::absolute(part_).parent_path().string());
  if (error) return CannotWrite(error.value());
  file_ = open(part_.c_str(), mode | O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  return file_ >= 0 ? absl::OkStatus() : CannotWrite(errno);
}

absl::StatusOr<NewFile> NewFile::Create(const std::string& path) {
  NewFile file(path, absl::StrCat(path, ".", getpid(), ".tmp"), /*keeps=*/false);
  SL_RETURN_IF_ERROR(file.Open(O_EXCL));
  return file;
}

absl::StatusOr<NewFile> NewFile::CreateAs(const std::string& path, const std::string& part) {
  NewFile file(path, part, /*keeps=*/true);
  SL_RETURN_IF_ERROR(file.Open(O_TRUNC));
  return file;
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  close(file_);
  if (!keeps_) unlink(part_.c_str());
}

void NewFile::Discard() {
  if (file_ < 0) return;
  close(std::exchange(file_, -1));
  unlink(part_.c_str());
}

absl::Status NewFile::Append(absl::string_view bytes) {
  const int error = WriteAll(file_, bytes);
  return error == 0 ? absl::OkStatus() : CannotWrite(error);
}

absl::Status NewFile::Commit() {
  // A file system without fsync says EINVAL.
  int error = fsync(file_) != 0 && errno != EINVAL ? errno : 0;
  if (close(std::exchange(file_, -1)) != 0 && error == 0) error = errno;
  if (error == 0 && rename(part_.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) {
    ForceFolderOf(path_);
    return absl::OkStatus();
  }
  if (!keeps_) unlink(part_.c_str());
  return CannotWrite(error);
}

absl::Status NewFile::CannotWrite(int error) const {
  return absl::UnavailableError(
      absl::StrCat(keeps_ ? part_ : path_, ": cannot be written: ", std::strerror(error)));
}

}  // namespace stringline
