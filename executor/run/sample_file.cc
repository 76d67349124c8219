// The tensors of a mapped file, checked against the model's sizes when the file is opened; tokens
// and targets are checked against the model's when they are read.
#include "executor/run/sample_file.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/fnv.h"
#include "schedlang/base/status.h"
#include "stages/graph.h"

namespace stringline {
namespace {

constexpr int64_t kIgnored = -100;  // of torch's cross_entropy

}  // namespace

int64_t SampleFile::Column::At(int64_t i) const {
  int64_t wide_number = 0;
  int32_t number = 0;
  if (wide) {
    std::memcpy(&wide_number, data + i * static_cast<int64_t>(sizeof wide_number),
                sizeof wide_number);
    return wide_number;
  }
  std::memcpy(&number, data + i * static_cast<int64_t>(sizeof number), sizeof number);
  return number;
}

absl::StatusOr<SampleFile> SampleFile::Open(const std::string& path, const SampleShape& shape) {
  SampleFile file;
  SL_ASSIGN_OR_RETURN(file.mapped_, MappedFile::Open(path));
  file.path_ = path;
  file.shape_ = shape;
  const absl::Status status = file.FindTensors();
  if (status.ok()) return file;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<SampleFile::Column> SampleFile::ColumnOf(const StoredTensor& tensor,
                                                        const char* data, bool floats,
                                                        absl::Span<const int64_t> sizes) {
  const std::string wanted_type = floats ? "F32" : "I32 or I64";
  const bool is_type =
      floats ? tensor.dtype == "F32" : tensor.dtype == "I32" || tensor.dtype == "I64";
  std::vector<uint64_t> wanted(sizes.begin(), sizes.end());
  const std::vector<uint64_t>& given = tensor.shape;
  // One target of each sample may have no dimension.
  if (given.size() == 1 && wanted.size() == 1 && wanted[0] == 1) wanted.clear();
  const bool fits = !given.empty() && given.size() == wanted.size() + 1 &&
                    std::equal(wanted.begin(), wanted.end(), given.begin() + 1);
  if (!is_type || !fits) {
    wanted.assign(sizes.begin(), sizes.end());
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(tensor.name), " is ", tensor.dtype, " [", absl::StrJoin(given, ", "),
        "]; the model reads ", wanted_type, " [N, ", absl::StrJoin(wanted, ", "), "]"));
  }
  Column column{data + tensor.begin, tensor.dtype == "I64", 1};
  for (const int64_t size : sizes) column.each *= size;
  const auto samples = static_cast<int64_t>(given[0]);
  if (samples == 0) return absl::InvalidArgumentError("it has no samples");
  if (samples_ != 0 && samples_ != samples) {
    return absl::InvalidArgumentError(absl::StrCat("its tensors have ", samples_, " and ", samples,
                                                   " samples: each input has its targets"));
  }
  samples_ = samples;
  return column;
}

absl::Status SampleFile::FindTensors() {
  const absl::string_view all = mapped_.bytes();
  SL_ASSIGN_OR_RETURN(const uint64_t header_bytes,
                      HeaderBytes(all.substr(0, kLengthBytes), all.size()));
  const uint64_t begin = kLengthBytes + header_bytes;
  SL_ASSIGN_OR_RETURN(
      const TensorHeader header,
      ParseTensorHeader(all.substr(kLengthBytes, header_bytes), all.size() - begin));
  const StoredTensor *input = nullptr, *target = nullptr;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.name == "input") {
      input = &tensor;
    } else if (tensor.name == "target") {
      target = &tensor;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "nothing reads its tensor ", Quoted(tensor.name), "; samples are 'input' and 'target'"));
    }
  }
  if (input == nullptr || target == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has no tensor '", input == nullptr ? "input" : "target",
                     "'; samples are 'input', the model's, and 'target', the classes"));
  }
  SL_ASSIGN_OR_RETURN(input_, ColumnOf(*input, all.data() + begin, shape_.numbers, shape_.sizes));
  SL_ASSIGN_OR_RETURN(target_, ColumnOf(*target, all.data() + begin, false, {shape_.targets}));
  return absl::OkStatus();
}

absl::Status SampleFile::Fill(int64_t sample, absl::Span<int32_t> tokens,
                              absl::Span<int32_t> targets) const {
  const auto outside = [&](const char* what, int64_t number, int64_t count) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": sample ", sample, ": ", what, " ",
                                                   number, ": the model's are 0 to ", count - 1));
  };
  if (shape_.numbers) {
    const auto bytes = static_cast<size_t>(input_.each) * sizeof(int32_t);
    std::memcpy(tokens.data(), input_.data + static_cast<size_t>(sample) * bytes, bytes);
  } else {
    for (int64_t i = 0; i < input_.each; ++i) {
      const int64_t token = input_.At(sample * input_.each + i);
      if (token < 0 || token >= shape_.token_kinds) {
        return outside("token", token, shape_.token_kinds);
      }
      tokens[static_cast<size_t>(i)] = static_cast<int32_t>(token);
    }
  }
  const int64_t before = input_.each - target_.each;
  std::fill_n(targets.begin(), before, kNoTarget);
  for (int64_t i = 0; i < target_.each; ++i) {
    const int64_t target = target_.At(sample * target_.each + i);
    if (target != kIgnored && (target < 0 || target >= shape_.classes)) {
      return outside("target", target, shape_.classes);
    }
    targets[static_cast<size_t>(before + i)] =
        target == kIgnored ? kNoTarget : static_cast<int32_t>(target);
  }
  return absl::OkStatus();
}

int64_t SampleFile::CountTargets(int64_t sample) const {
  int64_t count = 0;
  for (int64_t i = 0; i < target_.each; ++i) {
    count += target_.At(sample * target_.each + i) == kIgnored ? 0 : 1;
  }
  return count;
}

uint64_t SampleFile::HashOf(int64_t sample) const {
  Fnv hash;
  for (const Column* const column : {&input_, &target_}) {
    for (int64_t i = 0; i < column->each; ++i) {
      hash.Add(static_cast<uint64_t>(column->At(sample * column->each + i)));
    }
  }
  return hash.value();
}

}  // namespace stringline
