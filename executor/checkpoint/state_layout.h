// The files of a checkpoint, the contents of each, and the process that writes each value.
//
// All processes make the same layout from the ranges that each holds. Every value is written by
// exactly one process. A tensor is whole in a single file, which belongs to the process that writes
// the first value; processes that hold the rest write into the same file.
//
//   model-0000K-of-0000N.safetensors       parameters, with names and layouts of the model's family
//   optimizer-0000K-of-0000N.safetensors   moments: our names with ".m" and ".v", in our layout
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "executor/checkpoint/stored_params.h"
#include "executor/checkpoint/tensor_header.h"
#include "executor/checkpoint/training_state.h"
#include "stages/models/model.h"

namespace stringline {

// A range of a state tensor's values, all in one process.
struct StateRange {
  int tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// The ranges that each process writes: every value of tensors of these sizes once. `held` are the
// ranges that each process holds, by process. Of several holders the process with the least to
// write does.
std::vector<std::vector<StateRange>> ShareWriting(absl::Span<const int64_t> sizes,
                                                  absl::Span<const std::vector<StateRange>> held);

struct StateFile {
  std::string name;
  int owner = 0;  // the process that creates the file
  std::vector<StoredTensor> tensors;
  int64_t values() const { return static_cast<int64_t>(tensors.back().end / sizeof(float)); }
};

// A tensor of a file, as a part of a tensor of the state.
struct PlacedSlice {
  StoredSlice stored;
  int file = 0;
  int64_t first = 0;  // its first value, among those of the file
};

struct StateLayout {
  std::vector<StateFile> files;
  // By tensor of the state.
  std::vector<std::vector<PlacedSlice>> slices[kStateKinds];
};

StateLayout LayoutOf(const AnyShape& shape, absl::Span<const StateTensor> tensors,
                     absl::Span<const std::vector<StateRange>> written);

// The stored tensors of a parameter, or of one of its moments.
std::vector<StoredSlice> SlicesOfState(const Param& param, const AnyShape& shape, StateKind kind);

// Adjacent values of a stored tensor: `count` from `stored` on. In the parameter they are the value
// `first` and every `stride`-th after.
struct StoredRun {
  int64_t stored = 0;
  int64_t count = 0;
  int64_t first = 0;
  int64_t stride = 1;
};

// The values `first` .. `first` + `count` - 1 of a parameter, as far as the slice has them, in the
// order in which they are stored.
void ForEachRun(const StoredSlice& slice, int64_t first, int64_t count,
                absl::FunctionRef<void(const StoredRun&)> visit);

// A sum over values and their places, modulo 2^64: the sums of a file's parts add up to the file's.
// `first` is the place of the first value.
uint64_t SumOfPlaces(absl::Span<const float> values, int64_t first);

}  // namespace stringline
