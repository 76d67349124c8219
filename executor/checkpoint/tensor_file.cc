#include "executor/checkpoint/tensor_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/base/open_file.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

static_assert(std::endian::native == std::endian::little, "tensors are read as they are stored");

namespace {

// The upper half of a float.
float FromBfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// 1 sign, 5 exponent and 10 fraction bits.
float FromHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x0400) return std::bit_cast<float>(sign | (rest + 0x1c000u) << 13);
  const float small = static_cast<float>(rest) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

}  // namespace

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
  SL_ASSIGN_OR_RETURN(const int opened, OpenToRead(path));
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

absl::StatusOr<std::string> TensorFile::ReadHeader() const {
  std::string bytes(data_begin_, '\0');
  const absl::Status read = ReadAt(0, bytes.data(), bytes.size());
  if (read.ok()) return bytes;
  return absl::Status(read.code(), absl::StrCat(path_, ": ", read.message()));
}

bool IsReadable(absl::string_view dtype) {
  return dtype == "F32" || dtype == "BF16" || dtype == "F16";
}

absl::Status TensorFile::Read(const StoredTensor& tensor, uint64_t first,
                              absl::Span<float> values) const {
  const bool narrow = tensor.dtype != "F32";
  const uint64_t width = narrow ? 2 : 4;
  SL_CHECK(IsReadable(tensor.dtype) && (first + values.size()) * width <= tensor.end - tensor.begin)
      << tensor.name;
  const absl::Status read =
      narrow ? ReadNarrow(tensor, first, values)
             : ReadAt(data_begin_ + tensor.begin + first * width,
                      reinterpret_cast<char*>(values.data()), values.size() * width);
  if (read.ok()) return read;
  return absl::Status(read.code(),
                      absl::StrCat(path_, ": tensor ", Quoted(tensor.name), ": ", read.message()));
}

absl::Status TensorFile::ReadNarrow(const StoredTensor& tensor, uint64_t first,
                                    absl::Span<float> values) const {
  constexpr size_t kPiece = 1 << 14;
  std::vector<uint16_t> piece(std::min(kPiece, values.size()));
  const auto widen = tensor.dtype == "BF16" ? FromBfloat : FromHalf;
  for (size_t at = 0; at < values.size(); at += kPiece) {
    const size_t count = std::min(kPiece, values.size() - at);
    SL_RETURN_IF_ERROR(ReadAt(data_begin_ + tensor.begin + (first + at) * sizeof(uint16_t),
                              reinterpret_cast<char*>(piece.data()), count * sizeof(uint16_t)));
    for (size_t i = 0; i < count; ++i) values[at + i] = widen(piece[i]);
  }
  return absl::OkStatus();
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
