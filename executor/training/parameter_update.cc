#include "executor/training/parameter_update.h"

#include <cmath>
#include <new>

#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<ParameterUpdate>> ParameterUpdate::Make(const TrainingJob* job,
                                                                       Pipelines* pipelines,
                                                                       const OwnedState* state) {
  std::unique_ptr<ParameterUpdate> update(new ParameterUpdate(job, pipelines, state));
  SL_ASSIGN_OR_RETURN(void* const step,
                      job->device()->AllocateHost(static_cast<int64_t>(sizeof(UpdateStep))));
  update->step_ = new (step) UpdateStep;
  for (int c = 0; c < job->mesh().coordinates(); ++c) {
    for (int32_t s = 0; s < job->stages(); ++s) {
      std::vector<MemberCall>& gathers = update->gathers_.emplace_back();
      const StageId stage(s);
      if (job->holds(stage, c)) gathers = pipelines->stages(c).GatherUpdated(stage);
    }
  }
  return update;
}

double ParameterUpdate::Begin(double learning_rate, double sum_of_squares, int64_t tokens) {
  const TrainerSettings& settings = job_->settings();
  const double mean = 1.0 / static_cast<double>(tokens);
  const double norm = std::sqrt(sum_of_squares) * mean;
  ++step_->number;
  step_->adamw = settings.optimizer;
  step_->adamw.learning_rate = learning_rate;
  step_->balance_rate = settings.balance_rate;
  step_->scale = mean;
  if (settings.clip_norm > 0 && norm > settings.clip_norm) {
    step_->scale *= settings.clip_norm / norm;
  }
  return norm;
}

void ParameterUpdate::Enqueue() {
  pipelines_->EnqueueForEveryStage(UpdateStage, this);
  EnqueueGathers();
}

void ParameterUpdate::UpdateStage(const void* self, int64_t place, NativeStream stream) {
  const auto& update = *static_cast<const ParameterUpdate*>(self);
  const int coordinate = update.pipelines_->CoordinateOf(place);
  const StageId stage = update.pipelines_->StageOf(place);
  update.job_->kernels()->Update(*update.step_, update.state_->blocks(coordinate, stage), stream);
  update.pipelines_->stages(coordinate).ClearGrads(stage, stream);
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
