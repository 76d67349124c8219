// state.json of a checkpoint: everything about a training besides its parameters and moments, and a
// list of the checkpoint's files. A folder without this file is no checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/training/step_history.h"

namespace stringline {

struct CheckpointState {
  std::string run;    // identity of a start of a run; in all files of the checkpoint
  int64_t step = 0;   // so many are done: the place in the data and in the learning rate, too
  uint64_t seed = 0;  // the data's
  std::string data;   // the training data (TrainingData::Identity)
  int64_t microbatches = 0;  // per step, over all coordinates
  int64_t microbatch = 0;    // its sequences
  int64_t context = 0;
  bool deterministic = true;                 // of RunConfig; missing in the text where it is
  std::map<std::string, std::string> model;  // SizesOf
  StepHistory history;                       // all steps so far
  struct File {
    int64_t bytes = 0;
    uint64_t sum = 0;                // SumOfPlaces of its values
    std::optional<uint64_t> header;  // SumOfText of what comes before them; format 1 has none
    friend bool operator==(const File&, const File&) = default;
  };
  std::map<std::string, File> files;
  std::map<std::string, uint64_t> texts;  // SumOfText of each text beside them
  bool has_sums = true;  // its text has a sum, and its files have sums of headers; not in format 1

  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

std::string Print(const CheckpointState& state);

// A hash of all bytes.
uint64_t SumOfText(absl::string_view text);

// InvalidArgument names the missing or wrong key, or says that the text is not the one that was
// written. Nothing in the text is trusted.
absl::StatusOr<CheckpointState> ParseCheckpointState(absl::string_view text);

}  // namespace stringline
