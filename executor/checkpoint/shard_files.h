// The safetensors files of a checkpoint: a process writes its ranges into them, and later another
// one reads its own out of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/checkpoint_state.h"
#include "executor/checkpoint/state_layout.h"
#include "executor/checkpoint/tensor_file.h"
#include "executor/checkpoint/tensor_files.h"

namespace stringline {

// A copy of what a process writes, in host memory: of every range its values, then both moments.
class StateCopy {
 public:
  StateCopy() = default;
  // All of it is touched here, not when it is first written.
  explicit StateCopy(std::vector<StateRange> ranges);

  const std::vector<StateRange>& ranges() const { return ranges_; }
  absl::Span<float> Of(size_t range, StateKind kind);
  absl::Span<const float> Of(size_t range, StateKind kind) const;
  static int64_t BytesOf(absl::Span<const StateRange> ranges);

 private:
  std::vector<StateRange> ranges_;
  std::vector<int64_t> first_;  // by range
  std::vector<float> values_;
};

// What a header says about where the file belongs, and how a layout's file begins.
std::string HeaderOf(const StateFile& file, const CheckpointState& state);

// Writes what `copy` has into the files of the folder, those of process `process` with their
// headers, and forces them to the disk. Returns its part of the files' sums, by file. Unavailable
// names the file and what the system says.
absl::StatusOr<std::vector<uint64_t>> WriteShards(const std::string& folder,
                                                  const StateLayout& layout,
                                                  const CheckpointState& state, int process,
                                                  const StateCopy& copy);

// The files of a checkpoint, opened for reading.
class ShardFiles {
 public:
  // InvalidArgument, naming the file, for one that is missing, was cut short, or is of another
  // checkpoint or another run.
  static absl::StatusOr<ShardFiles> Open(const std::string& folder, const CheckpointState& state);

  // Reads every value; InvalidArgument for a file whose values are not those that were written.
  absl::Status CheckSums(const CheckpointState& state) const;

  // Values `first`, … of one kind of a parameter.
  absl::Status Read(const Param& param, const AnyShape& shape, StateKind kind, int64_t first,
                    absl::Span<float> values) const;

 private:
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, PlacedTensor> tensors_;  // by name
};

}  // namespace stringline
