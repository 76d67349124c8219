// Every entry is checked alone: its keys, its type, and equality of its bytes with the bytes of its
// shape. Then all are sorted by offset, and each must begin at the end of the entry before.
#include "executor/checkpoint/tensor_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/json_tree.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

struct DTypeBytes {
  const char* name;
  uint64_t bytes;
};
constexpr DTypeBytes kDTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8},
};

absl::Status WrongTensor(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), ": ", what));
}

absl::StatusOr<std::vector<uint64_t>> Numbers(const Json& value, absl::string_view name,
                                              absl::string_view key) {
  std::vector<uint64_t> numbers;
  if (!value.is_array()) return WrongTensor(name, absl::StrCat(key, " is not a list"));
  for (const Json& item : value) {
    if (!item.is_number_unsigned()) {
      return WrongTensor(name,
                         absl::StrCat(key, " holds something that is not a whole number from 0"));
    }
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

// Bytes of a tensor. The product may be too large for 64 bits.
absl::StatusOr<uint64_t> BytesOf(const StoredTensor& tensor) {
  const auto* const dtype =
      std::find_if(std::begin(kDTypes), std::end(kDTypes),
                   [&tensor](const DTypeBytes& row) { return tensor.dtype == row.name; });
  if (dtype == std::end(kDTypes)) {
    return WrongTensor(tensor.name, absl::StrCat("unknown dtype ", Quoted(tensor.dtype)));
  }
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return 0;
  uint64_t bytes = dtype->bytes;
  for (const uint64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      return WrongTensor(tensor.name, "its shape has more elements than can be counted");
    }
  }
  return bytes;
}

absl::StatusOr<StoredTensor> ReadTensor(const std::string& name, const Json& entry) {
  StoredTensor tensor;
  tensor.name = name;
  if (!entry.is_object()) return WrongTensor(name, "its entry is not an object");
  for (const char* const key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) return WrongTensor(name, absl::StrCat("no '", key, "'"));
  }
  if (entry.size() != 3) return WrongTensor(name, "a key beside dtype, shape and data_offsets");
  if (!entry["dtype"].is_string()) return WrongTensor(name, "dtype is not a text");
  tensor.dtype = entry["dtype"].get<std::string>();
  SL_ASSIGN_OR_RETURN(tensor.shape, Numbers(entry["shape"], name, "shape"));
  SL_ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets,
                      Numbers(entry["data_offsets"], name, "data_offsets"));
  if (offsets.size() != 2) return WrongTensor(name, "data_offsets are not two numbers");
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end) return WrongTensor(name, "it ends before it begins");
  SL_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(tensor));
  if (tensor.end - tensor.begin != bytes) {
    return WrongTensor(name, absl::StrCat("its shape takes ", bytes, " bytes, but it has ",
                                          tensor.end - tensor.begin));
  }
  return tensor;
}

absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const Json& entry) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) return absl::InvalidArgumentError("__metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("__metadata__: ", Quoted(key), " is not a text"));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Checks that every byte belongs to exactly one tensor. `tensors` are in the order of their bytes.
absl::Status CheckCover(const std::vector<StoredTensor>& tensors, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.end > data_bytes) {
      return WrongTensor(tensor.name,
                         absl::StrCat("it ends at byte ", tensor.end, " of the data, but ",
                                      data_bytes, " are there: was the file cut short?"));
    }
    if (tensor.begin < covered) return WrongTensor(tensor.name, "it overlaps the tensor before it");
    if (tensor.begin > covered) {
      return WrongTensor(tensor.name, absl::StrCat(tensor.begin - covered,
                                                   " bytes before it belong to no tensor"));
    }
    covered = tensor.end;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the last ", data_bytes - covered, " bytes belong to no tensor"));
}

}  // namespace

std::string Quoted(absl::string_view name) {
  constexpr size_t kLongest = 80;
  return absl::StrCat("'", absl::CHexEscape(name.substr(0, kLongest)),
                      name.size() > kLongest ? "…" : "", "'");
}

absl::StatusOr<uint64_t> HeaderBytes(absl::string_view start, uint64_t file_bytes) {
  if (file_bytes < kLengthBytes || start.size() < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a safetensors file: ", file_bytes, " bytes are too few"));
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes |= uint64_t{static_cast<uint8_t>(start[i])} << (8 * i);
  }
  if (bytes > kMostHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file: a header of ", bytes,
                                                   " bytes; at most ", kMostHeaderBytes, " count"));
  }
  if (bytes > file_bytes - kLengthBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the header has ", bytes, " bytes, but only ",
                                                   file_bytes - kLengthBytes,
                                                   " are there: was the file cut short?"));
  }
  return bytes;
}

absl::StatusOr<TensorHeader> ParseTensorHeader(absl::string_view json, uint64_t data_bytes) {
  if (json.empty() || json[0] != '{') {
    return absl::InvalidArgumentError("not a safetensors file: its header does not begin with '{'");
  }
  SL_ASSIGN_OR_RETURN(const Json tree, ParseJsonObject(json, "the header", 4));
  TensorHeader header;
  for (const auto& [name, entry] : tree.items()) {
    if (name == kMetadata) {
      SL_ASSIGN_OR_RETURN(header.metadata, ReadMetadata(entry));
      continue;
    }
    SL_ASSIGN_OR_RETURN(StoredTensor tensor, ReadTensor(name, entry));
    header.tensors.push_back(std::move(tensor));
  }
  // A tensor without elements precedes the tensor that begins at the same byte.
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  SL_RETURN_IF_ERROR(CheckCover(header.tensors, data_bytes));
  return header;
}

std::string PrintTensorHeader(const TensorHeader& header) {
  // By hand, in the order of the tensors: the library's objects are sorted by name.
  std::vector<std::string> entries;
  if (!header.metadata.empty()) {
    entries.push_back(absl::StrCat(InJson(kMetadata), ":", InJson(header.metadata)));
  }
  for (const StoredTensor& tensor : header.tensors) {
    entries.push_back(absl::StrCat(InJson(tensor.name), ":{\"dtype\":", InJson(tensor.dtype),
                                   ",\"shape\":", InJson(tensor.shape), ",\"data_offsets\":[",
                                   tensor.begin, ",", tensor.end, "]}"));
  }
  std::string json = absl::StrCat("{", absl::StrJoin(entries, ","), "}");
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string text;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    text.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  }
  return text + json;
}

}  // namespace stringline
