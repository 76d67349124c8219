#include "executor/training/parameter_update.h"

#include <cmath>
#include <new>

#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<ParameterUpdate>> ParameterUpdate::Make(const TrainingJob* job,
                                                                       Pipelines* pipelines) {
  std::unique_ptr<ParameterUpdate> update(new ParameterUpdate(job, pipelines));
  const auto count = static_cast<size_t>(job->plan().steps);
  SL_ASSIGN_OR_RETURN(void* const memory, job->device()->AllocateHost(
                                              static_cast<int64_t>(count * sizeof(UpdateStep))));
  auto* const first = static_cast<UpdateStep*>(memory);
  for (size_t k = 0; k < count; ++k) new (first + k) UpdateStep;
  update->steps_ = {first, count};
  return update;
}

void ParameterUpdate::Prepare(const OwnedState* state, GradientNorm* norm) {
  state_ = state;
  norm_ = norm;
  for (int c = 0; c < job_->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < job_->stages(); ++s) {
      std::vector<MemberCall>& gathers = gathers_.emplace_back();
      const StageId stage(s);
      if (job_->holds(stage, c)) gathers = pipelines_->stages(c).GatherUpdated(stage);
    }
  }
}

Piece ParameterUpdate::PieceOf(int coordinate, StageId stage, int step) {
  const int64_t at = step * places() + pipelines_->PlaceOf(coordinate, stage);
  return {{UpdateInPlan, this, at}, pipelines_->stages(coordinate).GatherUpdated(stage), {}};
}

UpdateStep* ParameterUpdate::Next(int step, double learning_rate, int64_t targets) {
  UpdateStep& next = steps_[static_cast<size_t>(step)];
  next.number = ++updates_;
  next.adamw = job_->settings().optimizer;
  next.adamw.learning_rate = learning_rate;
  next.balance_rate = job_->settings().balance_rate;
  next.microbatches = int64_t{job_->plan().microbatches} * job_->plan().chunks /
                      job_->plan().slices / job_->plan().steps * job_->mesh().coordinates();
  next.scale = 1.0 / static_cast<double>(targets);
  return &next;
}

double ParameterUpdate::Begin(double learning_rate, double sum_of_squares, int64_t targets) {
  const double clip_norm = job_->settings().clip_norm;
  UpdateStep* const step = Next(0, learning_rate, targets);
  const double norm = std::sqrt(sum_of_squares) * step->scale;
  if (clip_norm > 0 && norm > clip_norm) step->scale *= clip_norm / norm;
  return norm;
}

void ParameterUpdate::BeginSteps(absl::Span<const double> learning_rates,
                                 absl::Span<const int64_t> targets) {
  SL_CHECK(learning_rates.size() == steps_.size()) << learning_rates.size();
  for (size_t k = 0; k < steps_.size(); ++k) {
    Next(static_cast<int>(k), learning_rates[k], targets[k]);
  }
}

void ParameterUpdate::Enqueue() {
  pipelines_->EnqueueForEveryStage(UpdateOne, this);
  EnqueueGathers();
}

void ParameterUpdate::UpdateStage(int step, int64_t place, NativeStream stream) const {
  const int coordinate = pipelines_->CoordinateOf(place);
  const StageId stage = pipelines_->StageOf(place);
  job_->kernels()->Update(steps_[static_cast<size_t>(step)], state_->blocks(coordinate, stage),
                          stream);
  pipelines_->stages(coordinate).params().ClearGrads(stage, job_->kernels(), stream);
}

void ParameterUpdate::UpdateOne(const void* self, int64_t place, NativeStream stream) {
  static_cast<const ParameterUpdate*>(self)->UpdateStage(/*step=*/0, place, stream);
}

void ParameterUpdate::UpdateInPlan(const void* self, int64_t at, NativeStream stream) {
  const auto& update = *static_cast<const ParameterUpdate*>(self);
  const auto step = static_cast<int>(at / update.places());
  const int64_t place = at % update.places();
  update.norm_->Sum(step, place, stream);
  StageParams& params = update.pipelines_->stages(update.pipelines_->CoordinateOf(place)).params();
  params.KeepVersion(update.pipelines_->StageOf(place), step, update.job_->kernels(), stream);
  update.UpdateStage(step, place, stream);
}

// Stage by stage and bucket by bucket, so that all members make their calls in the same order.
void ParameterUpdate::EnqueueGathers() {
  for (size_t at = 0; at < gathers_.size(); ++at) {
    const auto place = static_cast<int64_t>(at);
    for (const MemberCall& call : gathers_[at]) {
      const StreamId stream =
          pipelines_->ComputeStream(pipelines_->CoordinateOf(place), pipelines_->StageOf(place));
      call.group->Enqueue(call.member, stream, &call.call);
    }
  }
}

}  // namespace stringline
