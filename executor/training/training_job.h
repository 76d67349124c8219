// The facts of a training that do not change from its beginning: plan, stage programs, settings,
// backend, and the ranks that this process holds. All parts of the trainer read them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/backend.h"
#include "executor/engine/group.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/local_ranks.h"
#include "executor/engine/mesh.h"
#include "executor/engine/update_step.h"
#include "executor/training/sharding.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "stages/stage_program.h"

namespace stringline {

struct TrainerSettings {
  uint64_t seed = 0;   // of the parameters' first values
  int threads = 0;     // worker threads; 0: one per rank, at most one per core
  bool record = true;  // timestamps of every action
  AdamW optimizer;
  double clip_norm = 1;     // of the mean gradient over all stages; 0: no clipping
  double balance_rate = 0;  // of routers' biases (Update::kBalance)
  Mesh mesh;
  Sharding sharding = Sharding::kNone;    // of the shard groups' state; with kParameters the plan
                                          // has UNSHARD and RESHARD
  int64_t bucket_bytes = kBucketBytes;    // bound on gradients summed in one call
  CommLayout layout = CommLayout::kEdge;  // assigns messages to communicators; the plan is lowered
                                          // and checked for it
  // kListedWork: a message waits for all computations that its rank lists before it, as in
  // strict.h.
  MessageOrder order = MessageOrder::kValues;
  CallTimes link;  // durations of messages and exchanges
  // Steps are captured and replayed, if the device can.
  bool capture = true;
  // A lowered plan without backwards, with the same stages on the same ranks, for evaluations.
  std::optional<Plan> evaluation = std::nullopt;
};

class TrainingJob {
 public:
  // `lowered` is performed as it is. InvalidArgument if it lacks the REDUCE_GRADs of copies or
  // replicas, if the processes hold another number of ranks than the run has, or if the plan of
  // evaluations has other stages. Without a backend it makes the CPU's.
  static absl::StatusOr<std::unique_ptr<TrainingJob>> Make(Plan lowered,
                                                           std::vector<StageProgram> programs,
                                                           const TrainerSettings& settings,
                                                           std::unique_ptr<Backend> backend);

  // The job of settings().evaluation with the forwards of these programs, on the same backend; this
  // job outlives it.
  std::unique_ptr<TrainingJob> ForEvaluation() const;

  const Plan& plan() const { return plan_; }
  // The plan's dependencies, for its layout: made once for the interpreters of all copies, and for
  // what is measured.
  const Wiring& links() const { return links_; }
  absl::Span<const StageProgram> programs() const { return programs_; }
  const TrainerSettings& settings() const { return settings_; }
  const Mesh& mesh() const { return settings_.mesh; }
  StateSharing sharing() const {
    return {settings_.sharding, settings_.mesh, settings_.bucket_bytes};
  }
  // The ranks of this process.
  const LocalRanks& local() const { return local_; }
  // True if this process holds the stage's rank at the coordinate.
  bool holds(StageId stage, int coordinate) const {
    return local_.Has(coordinate, plan_.stage(stage).rank);
  }
  // A coordinate's member of the shard group; 0 without sharding.
  int ShardOf(int coordinate) const {
    return sharing().shards == 1 ? 0 : settings_.mesh.shard_of(coordinate);
  }
  int64_t stages() const { return static_cast<int64_t>(programs_.size()); }

  Device* device() const { return backend_->device(); }
  Kernels* kernels() const { return backend_->kernels(); }
  Groups* groups() const { return backend_->groups(); }
  Backend* backend() const { return backend_; }
  // Null if this process holds all ranks.
  World* world() const { return backend_ == nullptr ? nullptr : backend_->world(); }

  // Ends this process's part of the run and tells the other processes. Returns the cause that all
  // of them agree on (Groups::Agree), if the failure was not this process's alone.
  absl::Status GiveUp(absl::Status status) const;

 private:
  TrainingJob(Plan lowered, std::vector<StageProgram> programs, const TrainerSettings& settings,
              std::unique_ptr<Backend> backend);
  absl::Status MakeCpuBackend();
  absl::Status FindLocalRanks();

  const Plan plan_;
  const Wiring links_;
  const std::vector<StageProgram> programs_;
  const TrainerSettings settings_;
  std::unique_ptr<Backend> own_backend_;  // null: another job's
  Backend* backend_;
  LocalRanks local_;
};

}  // namespace stringline
