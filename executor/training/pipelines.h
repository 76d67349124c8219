// The copies of the pipeline, one for each coordinate of the mesh, each with its groups, the memory
// of its stages and an interpreter. After Prepare every rank of this process can run a step again
// and again without a further allocation. The pipelines of an evaluation run with the parameters of
// those of the training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/device.h"
#include "executor/engine/exact_sum.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/message_groups.h"
#include "executor/engine/recorder.h"
#include "executor/training/replicas.h"
#include "executor/training/stages.h"
#include "executor/training/training_job.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Sums over the forwards of a step. Losses are added up exactly: the same for every cut of the
// model and every assignment of ranks to processes.
struct StepSums {
  ExactSum losses;
  ExactSum balance_losses;  // of mixtures of experts
  int64_t dropped = 0;      // slots, by full experts
};

class Pipelines {
 public:
  // Makes the groups of gradients, experts and messages; every process makes the same ones, in the
  // same order, whatever ranks it holds.
  explicit Pipelines(const TrainingJob* job);
  // Once the groups are connected: decides the places of all values, and takes no memory. `lender`
  // has the parameters; null: these pipelines.
  absl::Status Place(const Pipelines* lender = nullptr);
  // The memory of this process's ranks at a place of the device, before any is taken.
  NeededMemory needed(int place) const;
  // The work of an UPDATE, asked for once.
  using UpdateWork = std::function<Piece(int coordinate, StageId stage, int step)>;
  // Takes the memory and makes the interpreters.
  absl::Status Prepare(const UpdateWork& update);

  // Enqueues the plan's steps, of all ranks of this process; the first time, also a comparison of
  // the calls of all processes.
  void EnqueueStep();
  // Enqueues `work` for every coordinate and every stage of this process on the compute stream of
  // its rank: work(self, PlaceOf(coordinate, stage), stream).
  void EnqueueForEveryStage(void (*work)(const void* self, int64_t place, NativeStream stream),
                            const void* self);
  // A number for a stage at a coordinate.
  int64_t PlaceOf(int coordinate, StageId stage) const {
    return coordinate * job_->stages() + stage.value;
  }
  int CoordinateOf(int64_t place) const { return static_cast<int>(place / job_->stages()); }
  StageId StageOf(int64_t place) const {
    return StageId(static_cast<int32_t>(place % job_->stages()));
  }

  Stages& stages(int coordinate) const { return *copies_[coordinate].stages; }
  // Null without TrainerSettings::record.
  Recorder* recorder(int coordinate) const { return copies_[coordinate].recorder.get(); }
  StreamId ComputeStream(int coordinate, StageId stage) const {
    return copies_[coordinate].interpreter->ComputeStream(job_->plan().stage(stage).rank);
  }

  // The data of a microbatch in a step of the plan; the microbatches of coordinate 0 come first,
  // then those of coordinate 1, and so on.
  absl::Span<int32_t> tokens(int step, MicrobatchId microbatch);
  absl::Span<int32_t> targets(int step, MicrobatchId microbatch);
  absl::Span<int32_t> positions(int step, MicrobatchId microbatch);
  void SetMaskKey(int step, MicrobatchId microbatch, const MaskKey& key);
  // The results of a step (Trainer) of this process's stages.
  StepSums SumsOf(int step) const;

  // All ranks, in the order of the coordinates; `allocated` of this process's ranks only.
  std::vector<RankBytes> rank_bytes() const;

 private:
  struct Copy {
    std::optional<MessageGroups> messages;
    std::unique_ptr<Recorder> recorder;
    std::unique_ptr<Stages> stages;
    std::unique_ptr<Interpreter> interpreter;
  };

  void MakeExpertGroups(int data);
  double SummandBytes(int coordinate, const std::vector<RankId>& ranks) const;
  absl::Status PrepareCopy(int coordinate, const UpdateWork& update);
  int BetweenSteps(int coordinate) const;
  // The microbatches of a step of a copy, and the first slice of one of them.
  int32_t WholeOnes() const;
  MicrobatchId FirstSliceOf(int step, int32_t microbatch) const;
  // visit(stages, stage, microbatch of the plan) for every forward of this process in a step.
  template <typename Visit>
  void ForEveryForward(int step, Visit visit) const;

  const TrainingJob* const job_;
  Replicas replicas_;
  std::vector<std::vector<Group*>> expert_groups_;  // by data coordinate and rank
  std::vector<Copy> copies_;                        // by coordinate
  bool calls_checked_ = false;
};

}  // namespace stringline
