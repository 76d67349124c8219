#include "executor/checkpoint/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

static_assert(std::endian::native == std::endian::little, "tensors are read as they are stored");

TensorFile::TensorFile(int file, std::string path) : file_(file), path_(std::move(path)) {}

TensorFile::TensorFile(TensorFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      data_begin_(other.data_begin_),
      header_(std::move(other.header_)) {}

TensorFile::~TensorFile() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<TensorFile> TensorFile::Open(const std::string& path) {
  const int opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) {
    const int error = errno;
    const std::string message = absl::StrCat(path, ": cannot be read: ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(message);
    return absl::PermissionDeniedError(message);
  }
  TensorFile file(opened, path);
  const absl::Status begun = file.Begin();
  if (begun.ok()) return file;
  return absl::Status(begun.code(), absl::StrCat(path, ": ", begun.message()));
}

absl::Status TensorFile::Begin() {
  struct stat status;
  if (fstat(file_, &status) != 0) return absl::UnavailableError(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError("not a regular file");
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  std::string start(std::min(file_bytes, kLengthBytes), '\0');
  SL_RETURN_IF_ERROR(ReadAt(0, start.data(), start.size()));
  SL_ASSIGN_OR_RETURN(const uint64_t header_bytes, HeaderBytes(start, file_bytes));
  std::string json(header_bytes, '\0');
  SL_RETURN_IF_ERROR(ReadAt(kLengthBytes, json.data(), json.size()));
  data_begin_ = kLengthBytes + header_bytes;
  SL_ASSIGN_OR_RETURN(header_, ParseTensorHeader(json, file_bytes - data_begin_));
  return absl::OkStatus();
}

absl::Status TensorFile::Read(const StoredTensor& tensor, absl::Span<float> values) const {
  SL_CHECK(tensor.dtype == "F32" && tensor.end - tensor.begin == values.size() * sizeof(float))
      << tensor.name;
  const absl::Status read =
      ReadAt(data_begin_ + tensor.begin, reinterpret_cast<char*>(values.data()),
             values.size() * sizeof(float));
  if (read.ok()) return read;
  return absl::Status(read.code(),
                      absl::StrCat(path_, ": tensor ", Quoted(tensor.name), ": ", read.message()));
}

absl::Status TensorFile::ReadAt(uint64_t offset, char* bytes, uint64_t count) const {
  while (count > 0) {
    const ssize_t got = pread(file_, bytes, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(std::strerror(errno));
    if (got == 0) return absl::InvalidArgumentError("the file ends here: was it cut short?");
    offset += got;
    bytes += got;
    count -= got;
  }
  return absl::OkStatus();
}

}  // namespace stringline
