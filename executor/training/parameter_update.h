// The update of every parameter of this process: the scale of the gradients (mean, clipping),
// AdamW, and the calls by which all members of a shard group have whole parameters again.
// Afterwards the gradients are zero.
//
// A plan without UPDATE is updated as a whole behind its step, with clipping. The UPDATEs of a plan
// update each stage by itself, and add up the squares of its gradients before: their rates and
// scales are known when the plan begins.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/stage_work.h"
#include "executor/engine/update_step.h"
#include "executor/training/gradient_norm.h"
#include "executor/training/owned_state.h"
#include "executor/training/pipelines.h"
#include "executor/training/training_job.h"

namespace stringline {

class ParameterUpdate {
 public:
  // Before the pipelines are prepared, which ask for the work of UPDATEs.
  static absl::StatusOr<std::unique_ptr<ParameterUpdate>> Make(const TrainingJob* job,
                                                               Pipelines* pipelines);
  // Before the first step.
  void Prepare(const OwnedState* state, GradientNorm* norm);
  // The work of a stage's UPDATE, and calls behind it.
  Piece PieceOf(int coordinate, StageId stage, int step);

  // The numbers of the next update. `targets`: of the step, whose gradients are sums over them.
  // Returns the norm of the mean gradient, before clipping.
  double Begin(double learning_rate, double sum_of_squares, int64_t targets);
  // The numbers of the UPDATEs of every step of the plan.
  void BeginSteps(absl::Span<const double> learning_rates, absl::Span<const int64_t> targets);
  // Enqueues the work of the update that Begin began.
  void Enqueue();
  // The gathers of a step alone: also needed after parameters were written otherwise.
  void EnqueueGathers();

  // The number of updates, with those that have begun.
  int64_t updates() const { return updates_; }
  void SetUpdates(int64_t updates) { updates_ = updates; }

 private:
  ParameterUpdate(const TrainingJob* job, Pipelines* pipelines)
      : job_(job), pipelines_(pipelines) {}
  UpdateStep* Next(int step, double learning_rate, int64_t targets);
  // The places of all stages and coordinates, step after step (Pipelines::PlaceOf).
  int64_t places() const { return job_->mesh().coordinates() * job_->stages(); }
  void UpdateStage(int step, int64_t place, NativeStream stream) const;
  static void UpdateOne(const void* self, int64_t place, NativeStream stream);
  static void UpdateInPlan(const void* self, int64_t at, NativeStream stream);

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  const OwnedState* state_ = nullptr;
  GradientNorm* norm_ = nullptr;
  int64_t updates_ = 0;
  // By step of the plan, of the last updates or the present ones; host memory of the device.
  absl::Span<UpdateStep> steps_;
  std::vector<std::vector<MemberCall>> gathers_;  // by coordinate and stage
};

}  // namespace stringline
