// The safetensors files of a checkpoint: each process writes its ranges into them, and a later
// run's processes read their own ranges.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/checkpoint_state.h"
#include "executor/checkpoint/state_layout.h"
#include "executor/checkpoint/tensor_file.h"
#include "executor/checkpoint/tensor_files.h"

namespace stringline {

// A copy, in host memory, of the state that a process writes: of every range its values, then both
// moments.
class StateCopy {
 public:
  StateCopy() = default;
  // Touches all memory here, not at the first copy.
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

// The metadata that ties a file to its checkpoint, and the header of a file of the layout.
std::string HeaderOf(const StateFile& file, const CheckpointState& state);

// Writes `copy` into the files of the folder, with the headers of the files of process `process`,
// and forces them to the disk. Returns this process's part of the files' sums, by file. Unavailable
// names the file and the system's error.
absl::StatusOr<std::vector<uint64_t>> WriteShards(const std::string& folder,
                                                  const StateLayout& layout,
                                                  const CheckpointState& state, int process,
                                                  const StateCopy& copy);

// The files of a checkpoint, opened for reading.
class ShardFiles {
 public:
  // InvalidArgument, naming the file, for a file that is missing, cut short, or of another
  // checkpoint or another run.
  static absl::StatusOr<ShardFiles> Open(const std::string& folder, const CheckpointState& state);

  // Sums over the values of each file, in the order of the state, of the `part`-th of so many parts
  // of all files: the parts of different processes add up. `working` is called every few
  // milliseconds while it reads.
  absl::StatusOr<std::vector<uint64_t>> SumsOfPart(int part, int parts,
                                                   absl::FunctionRef<void()> working) const;

  // Values `first`, … of a kind (value or moment) of a parameter.
  absl::Status Read(const Param& param, const AnyShape& shape, StateKind kind, int64_t first,
                    absl::Span<float> values) const;

 private:
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::map<std::string, PlacedTensor> tensors_;  // by name
};

}  // namespace stringline
