// Goes on where a checkpoint was taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/checkpoint/checkpoint_state.h"
#include "executor/engine/world.h"
#include "executor/training/trainer.h"
#include "stages/models/model.h"

namespace stringline {

struct ChosenCheckpoint {
  std::string folder;                // "": no checkpoint
  std::vector<std::string> skipped;  // newer checkpoints, and the fault of each
};

// The checkpoint at `path`, or the newest whole checkpoint of the folder of checkpoints at `path`,
// as process 0 sees it. All of it is read: each process reads a part, and tells the others that it
// gets on (World::Working). All processes call it, and get the same. NotFound where nothing has a
// checkpoint's name, InvalidArgument where none is whole, with the faults.
absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(const std::string& path, World* world = nullptr);

// FailedPrecondition if a folder of checkpoints has whole checkpoints of more than `step` steps: a
// run that begins at `step` would mix its own with those of another run. Called by one process,
// which tells the others in `world` that it gets on.
absl::Status RefuseLaterOnes(const std::string& folder, int64_t step, World* world = nullptr);

// Reads the checkpoint into the trainer, all copies in this process, and sets the number of
// updates. `now` is the state that the run itself would write. InvalidArgument where a run cannot
// resume from the checkpoint: another model, other data, another seed, or another number of
// sequences in a step.
absl::StatusOr<CheckpointState> Resume(const std::string& folder, const AnyShape& shape,
                                       const CheckpointState& now, Trainer* trainer);

}  // namespace stringline
