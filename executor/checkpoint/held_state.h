// Copies of the training's state in this process's memory, from which the run goes on when another
// process is lost. The last two copies are kept: when a process is lost, the others may be one step
// apart.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/checkpoint/training_state.h"
#include "executor/training/step_history.h"
#include "executor/training/trainer.h"

namespace stringline {

class HeldState {
 public:
  // Copies the state of this process's ranks behind so many steps. Called between steps.
  absl::Status Take(int64_t step, const StepHistory& history, Trainer* trainer);

  // The steps of the copies, the newest first.
  std::vector<int64_t> steps() const;

  // The run goes on from a held step: copies of later steps are dropped.
  void GoOnFrom(int64_t step);
  // True from GoOnFrom until Restore.
  bool goes_on() const { return goes_on_; }

  struct Restored {
    int64_t step = 0;
    StepHistory history;
  };
  // Writes the newest copy into a trainer, which holds the same ranks of a copy of the pipeline.
  // FailedPrecondition if it holds other values.
  absl::StatusOr<Restored> Restore(Trainer* trainer);

 private:
  // Adjacent values of a parameter, with their moments.
  struct Range {
    int64_t first = 0;
    std::vector<float> of[kStateKinds];
    int64_t end() const { return first + static_cast<int64_t>(of[kValues].size()); }
  };
  struct Copy {
    int64_t step = 0;
    StepHistory history;
    std::vector<std::vector<Range>> tensors;  // in the order of StateOf
  };

  static bool Has(const std::vector<Range>& ranges, const StateTensor::Part& part);

  std::deque<Copy> copies_;  // the newest first
  bool goes_on_ = false;
};

}  // namespace stringline
