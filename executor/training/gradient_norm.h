// The squares of each step's gradients, one sum for each owned block of this process. They are
// added up exactly, so that their sum has the same bits for every cut of the model, every sharding
// of its state and every number of processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/exact_sum.h"
#include "executor/training/owned_state.h"
#include "executor/training/pipelines.h"
#include "executor/training/training_job.h"

namespace stringline {

class GradientNorm {
 public:
  static absl::StatusOr<std::unique_ptr<GradientNorm>> Make(const TrainingJob* job,
                                                            Pipelines* pipelines,
                                                            const OwnedState* state);

  // Enqueues the sums of this process's blocks, of a plan's only step.
  void Enqueue();
  // The sums of a place (Pipelines::PlaceOf) in a step.
  void Sum(int step, int64_t place, NativeStream stream) const;
  // The sum over this process's gradients of a step.
  ExactSum SumOfSquares(int step) const;
  // The first gradient of this process that is not finite.
  struct BadGradient {
    int64_t place = -1;  // in the order of the model; -1: all are finite
    std::string text;
  };
  // After a step. An UPDATE has cleared the gradient itself.
  absl::StatusOr<BadGradient> DescribeBadGradient(int step) const;

 private:
  GradientNorm(const TrainingJob* job, Pipelines* pipelines, const OwnedState* state)
      : job_(job), pipelines_(pipelines), state_(state) {}
  static void SumOne(const void* self, int64_t place, NativeStream stream);
  template <typename Visit>
  void ForEverySquare(Visit visit) const;
  // A stage's sums at a coordinate, by owned block: in host memory of the device.
  absl::Span<double> squares(int step, int coordinate, StageId stage) const {
    return squares_[static_cast<size_t>(step)][pipelines_->PlaceOf(coordinate, stage)];
  }
  absl::StatusOr<float> BadValue(const OwnedBlock& owned) const;

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  const OwnedState* const state_;
  // By step, then coordinate and stage; empty for stages of other processes.
  std::vector<std::vector<absl::Span<double>>> squares_;
};

}  // namespace stringline
