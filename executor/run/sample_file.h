// Training data of given samples: a safetensors file with two tensors of N samples each.
//
//   input   F32 (N, …) for a model of numbers, I32 or I64 (N, tokens) for a model of tokens
//   target  I32 or I64 (N), or (N, targets): classes; -100 is no target, as in torch
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/tensor_header.h"
#include "executor/training/data.h"
#include "executor/training/mapped_file.h"
#include "stages/models/model.h"

namespace stringline {

// The file is mapped (mapped_file.h).
class SampleFile : public Samples {
 public:
  // Errors name the file: NotFound, PermissionDenied; InvalidArgument for a file that is no
  // safetensors file, lacks a tensor or has a further one, or has a tensor of another type or of
  // other sizes than the model reads.
  static absl::StatusOr<SampleFile> Open(const std::string& path, const SampleShape& shape);
  int64_t size() const override { return samples_; }  // N
  // The sample's numbers as I32 with the same bits, or its tokens; and its targets, kNoTarget for
  // none, behind as many kNoTarget as there are fewer targets than tokens. Spans have shape.tokens
  // values each. InvalidArgument names the first token or target outside the model's.
  absl::Status Fill(int64_t sample, absl::Span<int32_t> tokens,
                    absl::Span<int32_t> targets) const override;
  int64_t CountTargets(int64_t sample) const override;
  int64_t without_target() const override { return input_.each - target_.each; }
  uint64_t HashOf(int64_t sample) const override;

 private:
  // One of the tensors: where its numbers lie, and how many a sample has.
  struct Column {
    const char* data = nullptr;
    bool wide = false;  // I64
    int64_t each = 1;
    int64_t At(int64_t i) const;
  };
  SampleFile() = default;
  absl::Status FindTensors();
  absl::StatusOr<Column> ColumnOf(const StoredTensor& tensor, const char* data, bool floats,
                                  absl::Span<const int64_t> sizes);

  std::string path_;
  SampleShape shape_;
  MappedFile mapped_;
  int64_t samples_ = 0;
  Column input_, target_;
};

}  // namespace stringline
