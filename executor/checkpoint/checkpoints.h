// Takes a run's checkpoints during training.
//
//   Take      copies this process's share of the state, and returns
//   beside    a thread writes the copy into this process's files and forces them to the disk
//   Report    gives each process's news, at the end of each step: numbers, which are summed up
//   Hear      when all have written, process 0 writes config, index and state.json, renames the
//             folder and removes the oldest ones, beside the training too
//
// All processes call Take, Report and Hear after the same steps. A process that has reported its
// files as written leaves the folder to process 0; before this report it removes the folder if the
// run fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/checkpoint/background_job.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_state.h"
#include "executor/checkpoint/shard_files.h"
#include "executor/checkpoint/state_layout.h"
#include "executor/checkpoint/training_state.h"
#include "executor/engine/available_memory.h"
#include "executor/training/trainer.h"

namespace stringline {

// ResourceExhausted, with advice, unless memory is available for `copy` bytes of checkpoints and
// `ranks` bytes of the run's ranks.
absl::Status CheckCopyRoom(double copy, double ranks, const AvailableMemory& available);

class Checkpoints {
 public:
  // Only process 0 has a `folder`. `state` is common to all checkpoints; its step is the
  // first step of the run. `before` is the memory available before the trainer was made.
  //   ResourceExhausted   no memory for the copy
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

  // True if a checkpoint is due after so many steps, by their number or because it was asked for.
  bool IsDue(int64_t step, bool asked) const {
    return (asked || step % wish_.every == 0) && step != last_;
  }
  // Waits first until the checkpoint before is on the disk. Called between steps.
  absl::Status Take(int64_t step, const StepHistory& history);
  // A process's news, each 0 or 1; of all processes their sums.
  struct News {
    uint64_t failed = 0;   // could not write
    uint64_t written = 0;  // its files are on the disk
    uint64_t visible = 0;  // of process 0: the folder has its name
  };
  News Report();
  // Hears the news of all; an error ends the run: a checkpoint could not be written.
  absl::Status Hear(const News& all);
  // Waits until the last checkpoint taken is whole.
  absl::Status Finish();

  // The last whole checkpoint of this run, "": none.
  const std::string& newest() const { return newest_; }
  int64_t bytes() const { return StateCopy::BytesOf(copy_.ranges()); }  // the copy's bytes

 private:
  enum class Phase : uint8_t {
    kNone,        // nothing is under way
    kWriting,     // not all processes have reported their files as written
    kPublishing,  // process 0 gives the folder its name
  };

  Checkpoints(const CheckpointWish& wish, const AnyShape& shape, CheckpointState state,
              Trainer* trainer, std::unique_ptr<CheckpointFolder> folder);
  absl::Status Prepare(const AvailableMemory& before);
  absl::Status FindShares(std::vector<std::vector<StateRange>>* written);
  absl::Status CheckFolder();
  double BytesOfRanks() const;  // in host memory, of this process
  absl::Status CopyState();
  absl::Status Publish();
  // After all have written: process 0 gets the sums of all files, and publishes.
  absl::Status SumFiles();
  absl::Status FirstFailure();
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& mine);
  int process() const;
  std::string Unfinished() const;

  const CheckpointWish wish_;
  const AnyShape shape_;
  CheckpointState state_;  // the current or the last checkpoint's
  Trainer* const trainer_;
  const std::unique_ptr<CheckpointFolder> folder_;
  const std::vector<StateTensor> tensors_;
  StateLayout layout_;
  StateCopy copy_;
  Phase phase_ = Phase::kNone;
  bool told_ = false;  // this process has reported its files as written
  int64_t last_ = -1;  // step of the last checkpoint taken
  std::string newest_;
  std::vector<uint64_t> sums_;          // for this process's files
  std::unique_ptr<BackgroundJob> job_;  // destroyed first: works on the members above
};

}  // namespace stringline
