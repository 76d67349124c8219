#include "executor/training/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/open_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

absl::StatusOr<absl::string_view> Map(int file) {
  struct stat status;
  if (fstat(file, &status) != 0) return absl::UnavailableError(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError("not a regular file");
  if (status.st_size == 0) return absl::InvalidArgumentError("the file is empty");
  const auto size = static_cast<size_t>(status.st_size);
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) return absl::string_view(static_cast<const char*>(mapped), size);
  return absl::UnavailableError(absl::StrCat("cannot be mapped: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  SL_ASSIGN_OR_RETURN(const int opened, OpenToRead(path));
  const absl::StatusOr<absl::string_view> mapped = Map(opened);
  close(opened);
  if (!mapped.ok()) {
    return absl::Status(mapped.status().code(),
                        absl::StrCat(path, ": ", mapped.status().message()));
  }
  MappedFile file;
  file.bytes_ = *mapped;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace stringline
