#include "tools/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/new_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

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

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, absl::string_view text) {
  if (IsSpecial(path)) return WriteInPlace(path, text);
  SL_ASSIGN_OR_RETURN(NewFile file, NewFile::Create(path));
  SL_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

}  // namespace stringline
