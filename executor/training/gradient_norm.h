// The squares of each step's gradients, one sum for each owned block, of all processes. Their sum
// is taken in the order of the model, block by block, so that it has the same bits for every cut of
// the model and every sharding of its state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
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
  // A stage's sums at a coordinate, by owned block: in host memory of the device. Every process has
  // room for all of them, and fills in those of other processes from their messages.
  absl::Span<double> squares(int step, int coordinate, StageId stage) const {
    return squares_[static_cast<size_t>(step)][pipelines_->PlaceOf(coordinate, stage)];
  }
  // The sum over all gradients of a step, once every process's sums are known.
  double SumOfSquares(int step) const;
  // After a sum that is not finite: the first gradient in the order of the model that is not; "" if
  // another process holds it. An UPDATE has cleared the gradient itself.
  absl::StatusOr<std::string> DescribeBadGradient(int step) const;

 private:
  GradientNorm(const TrainingJob* job, Pipelines* pipelines, const OwnedState* state)
      : job_(job), pipelines_(pipelines), state_(state) {}
  static void SumOne(const void* self, int64_t place, NativeStream stream);
  template <typename Visit>
  void ForEverySquare(Visit visit) const;
  absl::StatusOr<float> BadValue(const OwnedBlock& owned) const;

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  const OwnedState* const state_;
  std::vector<std::vector<absl::Span<double>>> squares_;  // by step, then coordinate and stage
};

}  // namespace stringline
