// The update of every parameter of this process at the end of a step: the scale of the gradients
// (mean, clipping), AdamW, and the calls by which all members of a shard group have whole
// parameters again. Afterwards the gradients are zero.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/engine/stage_work.h"
#include "executor/engine/update_step.h"
#include "executor/training/owned_state.h"
#include "executor/training/pipelines.h"
#include "executor/training/training_job.h"

namespace stringline {

class ParameterUpdate {
 public:
  static absl::StatusOr<std::unique_ptr<ParameterUpdate>> Make(const TrainingJob* job,
                                                               Pipelines* pipelines,
                                                               const OwnedState* state);

  // The numbers of the next update. `tokens`: of the step, whose gradients are sums over them.
  // Returns the norm of the mean gradient, before clipping.
  double Begin(double learning_rate, double sum_of_squares, int64_t tokens);
  // Enqueues the update, then EnqueueGathers.
  void Enqueue();
  // Enqueues the calls that gather updated parameters from their owners.
  void EnqueueGathers();

  // The number of updates, which AdamW needs to correct the moments.
  int64_t updates() const { return step_->number; }
  void SetUpdates(int64_t updates) { step_->number = updates; }

 private:
  ParameterUpdate(const TrainingJob* job, Pipelines* pipelines, const OwnedState* state)
      : job_(job), pipelines_(pipelines), state_(state) {}
  static void UpdateStage(const void* self, int64_t place, NativeStream stream);

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  const OwnedState* const state_;
  UpdateStep* step_ = nullptr;  // the last update, or the present one; host memory of the device
  std::vector<std::vector<MemberCall>> gathers_;  // by coordinate and stage
};

}  // namespace stringline
