// A safetensors file on the disk, opened for reading. Bytes are read on demand, without a memory
// mapping: a file cut short meanwhile is an error and no crash, and a tensor of a narrower type is
// widened piece by piece.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/tensor_header.h"

namespace stringline {

// True if Read can read a tensor of this type.
bool IsReadable(absl::string_view dtype);

class TensorFile {
 public:
  // Every error names the path: NotFound, PermissionDenied, InvalidArgument for a file that is no
  // safetensors file.
  static absl::StatusOr<TensorFile> Open(const std::string& path);
  TensorFile(TensorFile&& other) noexcept;
  TensorFile& operator=(TensorFile&&) = delete;
  ~TensorFile();

  const std::string& path() const { return path_; }
  const TensorHeader& header() const { return header_; }
  // All bytes before the tensors'.
  absl::StatusOr<std::string> ReadHeader() const;

  // Values `first`, `first` + 1, … of an F32, BF16 or F16 tensor of the header, as many as `values`
  // has, all within the tensor.
  absl::Status Read(const StoredTensor& tensor, uint64_t first, absl::Span<float> values) const;

 private:
  TensorFile(int file, std::string path);
  absl::Status ReadAt(uint64_t offset, char* bytes, uint64_t count) const;
  absl::Status ReadNarrow(const StoredTensor& tensor, uint64_t first,
                          absl::Span<float> values) const;
  absl::Status Begin();

  int file_ = -1;
  std::string path_;
  uint64_t data_begin_ = 0;
  TensorHeader header_;
};

}  // namespace stringline
