// state.json of a checkpoint: what a training is beside its parameters and moments, and which files
// the checkpoint has. A folder without it is no checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/step_history.h"

namespace stringline {

struct CheckpointState {
  std::string run;    // of one start of a run; all files of the checkpoint name it
  int64_t step = 0;   // so many are done: the place in the data and in the learning rate, too
  uint64_t seed = 0;  // of the data
  std::string data;   // what is trained on (TrainingData::Identity)
  int64_t microbatches = 0;  // of a step, of all coordinates
  int64_t microbatch = 0;    // sequences of one
  int64_t context = 0;
  std::map<std::string, std::string> model;  // SizesOf
  StepHistory history;                       // of all steps so far
  struct File {
    int64_t bytes = 0;
    uint64_t sum = 0;  // SumOfPlaces of its values
    friend bool operator==(const File&, const File&) = default;
  };
  std::map<std::string, File> files;

  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

std::string Print(const CheckpointState& state);

// InvalidArgument says what is missing or wrong. Nothing in the text is trusted.
absl::StatusOr<CheckpointState> ParseCheckpointState(absl::string_view text);

}  // namespace stringline
