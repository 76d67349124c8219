#include "schedlang/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

bool MakeFolderOf(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) errno = error.value();
  return !error;
}

int Open(const std::string& path, int mode) {
  const int file = open(path.c_str(), mode, 0666);
  if (file >= 0 || errno != ENOENT || !MakeFolderOf(path)) return file;
  return open(path.c_str(), mode, 0666);
}

// A rename is on the disk when its folder is. Some file systems cannot say so: then it is as good
// as it gets.
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

NewFile::NewFile(int file, std::string path, std::string part, bool keeps)
    : file_(file), path_(std::move(path)), part_(std::move(part)), keeps_(keeps) {}

NewFile::NewFile(NewFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      keeps_(other.keeps_) {}

absl::StatusOr<NewFile> NewFile::Create(const std::string& path) {
  const std::string part = absl::StrCat(path, ".", getpid(), ".tmp");
  const int opened = Open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
  const int error = errno;
  NewFile file(opened, path, part, /*keeps=*/false);
  if (opened < 0) return file.CannotWrite(error);
  return file;
}

absl::StatusOr<NewFile> NewFile::CreateAs(const std::string& path, const std::string& part) {
  const int opened = Open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  const int error = errno;
  NewFile file(opened, path, part, /*keeps=*/true);
  if (opened < 0) return file.CannotWrite(error);
  return file;
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  close(file_);
  if (!keeps_) unlink(part_.c_str());
}

absl::Status NewFile::Append(absl::string_view bytes) {
  const int error = WriteAll(file_, bytes);
  return error == 0 ? absl::OkStatus() : CannotWrite(error);
}

absl::Status NewFile::Commit() {
  // Where a file system knows no such thing, it says EINVAL.
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
