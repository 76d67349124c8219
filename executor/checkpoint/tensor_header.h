// The beginning of a safetensors file: the list of its tensors, with their offsets.
//
//   8 bytes      N, little-endian
//   N bytes      a JSON object, perhaps with spaces behind it:
//                {"__metadata__": {"format": "pt"},
//                 "head.weight": {"dtype": "F32", "shape": [256, 96], "data_offsets": [0, 98304]}}
//   the rest     the tensors' bytes, row-major, little-endian; offsets count from here
//
// A file is refused unless every byte of the rest belongs to exactly one tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct StoredTensor {
  std::string name;
  std::string dtype;  // "F32"; see kDTypes in the source for the others
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // among the tensors' bytes
  uint64_t end = 0;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

struct TensorHeader {
  std::vector<StoredTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  friend bool operator==(const TensorHeader&, const TensorHeader&) = default;
};

inline constexpr uint64_t kLengthBytes = 8;
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

// N of a file of `file_bytes` bytes that begins with `start`. InvalidArgument if the file is
// shorter, or N is over 100 MB.
absl::StatusOr<uint64_t> HeaderBytes(absl::string_view start, uint64_t file_bytes);

// `json` is the N bytes, `data_bytes` the number of bytes behind them. InvalidArgument describes
// the first fault.
absl::StatusOr<TensorHeader> ParseTensorHeader(absl::string_view json, uint64_t data_bytes);

// The 8 + N bytes, padded so that the data begin at a multiple of 8. Offsets are taken as they are.
std::string PrintTensorHeader(const TensorHeader& header);

// A name from a file in a form for messages: escaped, and no longer than a line.
std::string Quoted(absl::string_view name);

}  // namespace stringline
