// The figures of a run that its processes share: each gets the losses and the norm of all ranks,
// and process 0 their memory, and their times when somebody looks at them. Losses and norms are
// exact sums, of a fixed size however many ranks and microbatches there are. Without a world
// nothing is shared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/local_ranks.h"
#include "executor/training/gradient_norm.h"
#include "executor/training/pipelines.h"
#include "executor/training/training_job.h"

namespace stringline {

class SharedFigures {
 public:
  // The first exchange: every process's ranks and their bytes, and the difference of the clocks.
  static absl::StatusOr<std::unique_ptr<SharedFigures>> Make(const TrainingJob* job,
                                                             Pipelines* pipelines);
  // All ranks, in the order of the coordinates; those of other processes in process 0 only.
  const std::vector<RankBytes>& rank_bytes() const { return rank_bytes_; }

  // Sums up the results of the plan's steps.
  absl::Status ShareStep();
  double loss_sum(int step) const { return sums_[static_cast<size_t>(step)].losses.Rounded(); }
  double balance_loss_sum(int step) const {
    return sums_[static_cast<size_t>(step)].balance_losses.Rounded();
  }
  int64_t dropped(int step) const { return sums_[static_cast<size_t>(step)].dropped; }
  // The sums of the squares of all gradients, by step of the plan; valid until the next call.
  absl::StatusOr<absl::Span<const double>> ShareSquares(const GradientNorm& norm);
  // Gives the times of the plan's last run to process 0, which then knows those of all ranks.
  absl::Status GatherTimes();
  // The text of the first bad gradient in the order of the model, of all processes' first ones.
  absl::StatusOr<std::string> ShareFirst(const GradientNorm::BadGradient& mine);
  // The words that a process gives to a sum over all processes in a step of the plan: those of its
  // results, and those of its squares.
  static constexpr int kResultWords = 2 * ExactSum::kWords + 1;
  static constexpr int kSquareWords = ExactSum::kWords;

 private:
  SharedFigures(const TrainingJob* job, Pipelines* pipelines)
      : job_(job),
        pipelines_(pipelines),
        rank_bytes_(pipelines->rank_bytes()),
        sums_(static_cast<size_t>(job->plan().steps)) {}
  absl::Status ShareMemory();
  absl::Status FindClock();

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  std::vector<RankBytes> rank_bytes_;  // of the mesh
  std::vector<StepSums> sums_;         // by step of the plan
  std::vector<uint64_t> words_;        // of the last sum: kept, so that a step allocates nothing
  std::vector<double> squares_;        // by step of the plan
  std::vector<LocalRanks> processes_;  // ranks of each process, in process 0 of several
  int64_t clock_ahead_ns_ = 0;         // ahead of process 0's
};

}  // namespace stringline
