// Takes a run's checkpoints while it trains.
//
//   Take      copies what this process writes of the state, and goes on
//   beside    a thread writes the copy into this process's files and forces them to the disk
//   Report    what a process has to tell, at the end of each step, until all have written
//   Hear      then process 0 writes config, index and state.json, renames the folder and removes
//             the oldest ones, beside the training too
//
// All processes call Take, Report and Hear after the same steps. A process that has told that it
// has written leaves the folder to process 0; before that it removes it where the run fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/available_memory.h"
#include "executor/checkpoint/background_job.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_state.h"
#include "executor/checkpoint/shard_files.h"
#include "executor/checkpoint/state_layout.h"
#include "executor/checkpoint/training_state.h"
#include "executor/run_config.h"
#include "executor/trainer.h"

namespace stringline {

class Checkpoints {
 public:
  // `folder` is there in process 0 alone. `state` is what all checkpoints have alike; its step is
  // the one at which the run begins. `before` is the memory that there was before the trainer was
  // made.
  //   ResourceExhausted   there is no memory for the copy
  //   FailedPrecondition  whole checkpoints of later steps are in the folder
  //   InvalidArgument     another process does not see the folder
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Make(const CheckpointWish& wish,
                                                           const AnyShape& shape,
                                                           CheckpointState state, Trainer* trainer,
                                                           std::unique_ptr<CheckpointFolder> folder,
                                                           const AvailableMemory& before);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Whether one is to be taken after so many steps, which may be the last ones of a run that was
  // told to stop.
  bool IsDue(int64_t step, bool stopped) const {
    return (stopped || step % wish_.every == 0) && step != last_;
  }
  // Waits first where the one before is not on the disk yet. Between steps.
  absl::Status Take(int64_t step, const StepHistory& history);
  // For the others, "" where there is nothing to tell; what all have told, by process. An error
  // ends the run: a checkpoint could not be written.
  std::string Report();
  absl::Status Hear(absl::Span<const std::string> reports);
  // Until the last one taken is whole.
  absl::Status Finish();

  // The last whole one of this run, "": none.
  const std::string& newest() const { return newest_; }
  int64_t bytes() const { return StateCopy::BytesOf(copy_.ranges()); }  // of the copy

 private:
  enum class Phase : uint8_t {
    kNone,        // nothing is under way
    kWriting,     // not all processes have told that they have written
    kPublishing,  // process 0 gives it its name
  };

  Checkpoints(const CheckpointWish& wish, const AnyShape& shape, CheckpointState state,
              Trainer* trainer, std::unique_ptr<CheckpointFolder> folder);
  absl::Status Prepare(const AvailableMemory& before);
  absl::Status FindShares(std::vector<std::vector<StateRange>>* written);
  absl::Status CheckFolder();
  absl::Status CheckRoom(absl::Span<const StateRange> own, const AvailableMemory& before) const;
  absl::Status CopyState();
  absl::Status Publish();
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& mine);
  int process() const;
  std::string Unfinished() const;

  const CheckpointWish wish_;
  const AnyShape shape_;
  CheckpointState state_;  // of the one under way, or the last one
  Trainer* const trainer_;
  const std::unique_ptr<CheckpointFolder> folder_;
  const std::vector<StateTensor> tensors_;
  StateLayout layout_;
  StateCopy copy_;
  Phase phase_ = Phase::kNone;
  bool told_ = false;  // that this process has written it
  int64_t last_ = -1;  // step of the last one taken
  std::string newest_;
  std::vector<uint64_t> sums_;          // of what this process has written
  std::unique_ptr<BackgroundJob> job_;  // ends before what it works on
};

}  // namespace stringline
