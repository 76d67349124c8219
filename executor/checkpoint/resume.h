// Goes on where a checkpoint was taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/checkpoint/checkpoint_state.h"
#include "executor/trainer.h"
#include "stages/models/model.h"

namespace stringline {

struct ChosenCheckpoint {
  std::string folder;                // "": there is none
  std::vector<std::string> skipped;  // newer ones, and what is wrong with each
};

// The checkpoint itself where `path` is one, or the newest whole one of a folder of checkpoints.
// All of it is read. Errors name what is wrong: NotFound where nothing has the name of one,
// InvalidArgument where none is whole.
absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(const std::string& path);

// FailedPrecondition where a folder of checkpoints has whole ones of more than `step` steps: a run
// that begins there would write beside them, and nobody could tell whose they are.
absl::Status RefuseLaterOnes(const std::string& folder, int64_t step);

// Reads the checkpoint into the trainer, all copies of what is here, and sets the number of
// updates. `now` is what the run would write itself. InvalidArgument where a run cannot go on with
// it: another model, other data, another seed, or another number of sequences in a step.
absl::StatusOr<CheckpointState> Resume(const std::string& folder, const AnyShape& shape,
                                       const CheckpointState& now, Trainer* trainer);

}  // namespace stringline
