// The state that this process updates: for every coordinate and stage the blocks of parameters that
// the coordinate owns, with their gradients and AdamW's two moments. Every value of a parameter is
// in the blocks of exactly one coordinate of a shard group. Checkpoints consist of these blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/kernels.h"
#include "executor/training/pipelines.h"
#include "executor/training/training_job.h"
#include "schedlang/base/ids.h"

namespace stringline {

// A piece of training state in a place's memory: some values of a parameter, with AdamW's moments
// of them.
struct StatePiece {
  StageId stage;
  int param = 0;  // index in the stage's program
  int coordinate = 0;
  int64_t begin = 0;         // elements, from the first that this coordinate has
  absl::Span<float> values;  // in the device's memory, F32, like the moments
  absl::Span<float> m, v;
};

class OwnedState {
 public:
  // Takes the memory of the moments, once the pipelines are prepared.
  static absl::StatusOr<std::unique_ptr<OwnedState>> Make(const TrainingJob* job,
                                                          Pipelines* pipelines);

  // In the order of Stages::OwnedBlocks; none of a stage in another process.
  const std::vector<ParamBlock>& blocks(int coordinate, StageId stage) const {
    return blocks_[pipelines_->PlaceOf(coordinate, stage)];
  }
  std::vector<StatePiece> Pieces() const;

 private:
  OwnedState(const TrainingJob* job, Pipelines* pipelines) : job_(job), pipelines_(pipelines) {}
  absl::Status AddBlocks(int coordinate, StageId stage);

  const TrainingJob* const job_;
  Pipelines* const pipelines_;
  std::vector<std::vector<ParamBlock>> blocks_;  // by coordinate and stage
};

}  // namespace stringline
