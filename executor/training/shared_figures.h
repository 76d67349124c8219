// The exchange between the processes of a run that gives each the memory, the losses and the norm
// of all ranks, and process 0 their times when somebody looks at them. A process packs its ranks'
// figures in a common order: by coordinate, rank and stage. Without a world every exchange does
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  // All ranks, in the order of the coordinates.
  const std::vector<RankBytes>& rank_bytes() const { return rank_bytes_; }

  // Losses and tallies of the plan's steps; then the squares of their gradients.
  absl::Status ShareStep();
  absl::Status ShareSquares(GradientNorm* norm);
  // Gives the times of the plan's last run to process 0, which then knows those of all ranks.
  absl::Status GatherTimes();
  // The first non-empty text among all processes.
  absl::StatusOr<std::string> ShareText(const std::string& text);

 private:
  SharedFigures(const TrainingJob* job, Pipelines* pipelines)
      : job_(job), pipelines_(pipelines), rank_bytes_(pipelines->rank_bytes()) {}
  absl::Status ShareMemory();
  absl::Status FindClock();
  template <typename Visit>
  void ForStagesOf(const LocalRanks& ranks, Visit visit) const;

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  std::vector<RankBytes> rank_bytes_;  // of the mesh
  std::vector<LocalRanks> processes_;  // ranks of each process, if there is a world
  int64_t clock_ahead_ns_ = 0;         // ahead of process 0's
};

}  // namespace stringline
