#include "tools/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

int WriteAll(int file, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(written);
  }
  return 0;
}

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(error)));
}

// A pipe or a device is written to, not replaced.
bool IsSpecial(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

absl::Status WriteInPlace(const std::string& path, absl::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return CannotWrite(path, errno);
  int error = WriteAll(file, text);
  if (close(file) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
}

bool MakeFolderOf(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) errno = error.value();
  return !error;
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, absl::string_view text) {
  if (IsSpecial(path)) return WriteInPlace(path, text);
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  constexpr int kMode = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int file = open(temporary.c_str(), kMode, 0666);
  if (file < 0 && errno == ENOENT && MakeFolderOf(path))
    file = open(temporary.c_str(), kMode, 0666);
  if (file < 0) return CannotWrite(path, errno);
  int error = WriteAll(file, text);
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(temporary.c_str());
  return CannotWrite(path, error);
}

}  // namespace stringline
