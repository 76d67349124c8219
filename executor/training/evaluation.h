// The forwards of a plan without backwards (TrainerSettings::evaluation), with the parameters of a
// training, on its ranks: the loss on data that it does not learn from. The parameters stay as they
// are, and everything else has memory of its own, so a training with evaluations has every bit of
// the one without.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/repeated_step.h"
#include "executor/training/pipelines.h"
#include "executor/training/shared_figures.h"
#include "executor/training/training_job.h"

namespace stringline {

class Evaluation {
 public:
  // Makes the groups, after those of the training: the same ones in every process.
  explicit Evaluation(const TrainingJob* training)
      : job_(training->ForEvaluation()),
        pipelines_(job_.get()),
        step_(job_->device(), /*phases=*/1, job_->settings().capture) {}
  // Once the training's pipelines have places for everything; then, once they have their memory.
  absl::Status Place(const Pipelines& training) { return pipelines_.Place(&training); }
  NeededMemory needed(int place) const { return pipelines_.needed(place); }
  absl::Status Prepare();

  // Microbatches of a run of the plan, those of all copies of the pipeline, in the order of
  // Trainer::tokens.
  int32_t microbatches() const {
    return job_->plan().microbatches / job_->plan().slices * job_->mesh().coordinates();
  }
  absl::Span<int32_t> tokens(MicrobatchId microbatch) { return pipelines_.tokens(0, microbatch); }
  absl::Span<int32_t> targets(MicrobatchId microbatch) { return pipelines_.targets(0, microbatch); }
  absl::Span<int32_t> positions(MicrobatchId microbatch) {
    return pipelines_.positions(0, microbatch);
  }
  // Runs the plan once, between two steps of the training. Errors as Trainer::ComputeGradients.
  absl::Status Run();
  // The sum over all tokens of the run (StepSums).
  double loss_sum() const { return figures_->loss_sum(0); }

  // As Trainer::rank_bytes, of the evaluation alone.
  const std::vector<RankBytes>& rank_bytes() const { return figures_->rank_bytes(); }

 private:
  const std::unique_ptr<TrainingJob> job_;
  Pipelines pipelines_;
  std::unique_ptr<SharedFigures> figures_;
  RepeatedStep step_;
};

}  // namespace stringline
