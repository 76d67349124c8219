// The beginning of a safetensors file: every read tensor lies within the data, and the printed
// header reads back as the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "executor/checkpoint/tensor_header.h"
#include "schedlang/base/sl_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stringline;  // NOLINT: a whole program in one function
  const std::string file(reinterpret_cast<const char*>(data), size);
  const auto bytes = HeaderBytes(file, size);
  if (!bytes.ok()) return 0;
  SL_CHECK(kLengthBytes + *bytes <= size) << "the header lies in the file";
  const uint64_t data_bytes = size - kLengthBytes - *bytes;
  const auto header = ParseTensorHeader(file.substr(kLengthBytes, *bytes), data_bytes);
  if (!header.ok()) return 0;
  uint64_t end = 0;
  for (const StoredTensor& tensor : header->tensors) {
    SL_CHECK(tensor.begin == end && tensor.end >= end) << "tensors follow each other";
    end = tensor.end;
  }
  SL_CHECK(end == data_bytes) << "every byte belongs to a tensor";
  const std::string printed = PrintTensorHeader(*header);
  const auto again = HeaderBytes(printed, printed.size());
  SL_CHECK(again.ok() && kLengthBytes + *again == printed.size()) << printed;
  const auto back = ParseTensorHeader(printed.substr(kLengthBytes), data_bytes);
  SL_CHECK(back.ok() && *back == *header) << printed;
  return 0;
}
