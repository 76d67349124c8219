// The stages of a model on a device, as the work of a plan's actions: a graph for every kind of
// computation, the buffers between actions, and the addresses of every part of every action. Memory
// that lasts from step to step is StageParams', data and results StepData's.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/stage_work.h"
#include "executor/training/bucket_order.h"
#include "executor/training/host_copies.h"
#include "executor/training/rank_allocator.h"
#include "executor/training/ready_graph.h"
#include "executor/training/ready_programs.h"
#include "executor/training/replicas.h"
#include "executor/training/row_exchanges.h"
#include "executor/training/sharding.h"
#include "executor/training/stage_params.h"
#include "executor/training/state_collectives.h"
#include "executor/training/step_data.h"
#include "executor/training/step_memory.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/plan.h"
#include "stages/stage_program.h"

namespace stringline {

class Stages final : public StageWork {
 public:
  // A program per stage of the plan, in the order of the model. Computes the place of every buffer
  // of these ranks, the only ones that Allocate can be asked for, without taking memory. All
  // arguments outlive the object; the stages of an evaluation run with the parameters of `lender`.
  // FailedPrecondition if an action would need sharded parameters that are not gathered.
  static absl::StatusOr<std::unique_ptr<Stages>> Place(const Plan& lowered,
                                                       absl::Span<const StageProgram> programs,
                                                       Kernels* kernels,
                                                       absl::Span<const RankId> ranks,
                                                       const StateSharing& sharing = {},
                                                       const Stages* lender = nullptr);
  // The sizes that `Place` uses, by stage. `plan` need not be lowered.
  static std::vector<StageSizes> SizesOf(const Plan& plan, absl::Span<const StageProgram> programs,
                                         Kernels* kernels, const StateSharing& sharing = {});
  // The memory that Allocate will take for these ranks, and the caller for the two moments:
  // `params` for parameters, gradients, moments and working copies; the rest for all else.
  NeededMemory needed(absl::Span<const RankId> ranks) const;
  // The same by rank; `planned` of the ranks that have places.
  std::vector<RankBytes> rank_bytes() const;
  // Takes all memory of these ranks from `device`, for the copy of the pipeline with this seat.
  // Parameters get their first values from `seed`, experts' those of the seat's expert rank. Only
  // these ranks' stages have an address.
  absl::Status Allocate(const MeshSeat& seat, uint64_t seed, absl::Span<const RankId> ranks,
                        Device* device);
  // Further memory for a stage, at its rank's place; after Allocate.
  absl::StatusOr<void*> Take(StageId stage, int64_t bytes);
  StageParams& params() { return params_; }

  // The work of an UPDATE, asked for when an interpreter is made: set before.
  void SetUpdate(std::function<Piece(StageId stage, int step)> update) {
    update_ = std::move(update);
  }

  int layers(StageId stage) const override { return params_.layout(stage).layers; }
  Piece Compute(const Action& action, LayerPart part) override;
  absl::StatusOr<Work> Copy(const Action& action) override;
  absl::StatusOr<Piece> Update(const Action& action) override;
  std::vector<HostCopy> CopiesBefore(const Action& action) override {
    return data_.CopiesBefore(action);
  }
  std::vector<HostCopy> CopiesAfter(const Action& action) override {
    return data_.CopiesAfter(action);
  }
  Bytes Payload(const Action& send_or_recv) const override { return memory_.Payload(send_or_recv); }
  // Buckets are reduced in the order in which a whole backward gives them, so that all copies do
  // alike, and gathered in that in which the computation `inside` reads them.
  bool MeetsBuckets(const Action& collective) const override;
  std::vector<BucketPiece> ComputeByBucket(const Action& action, bool gathers,
                                           bool reduces) override;
  int BucketsRead(const Action& action, LayerPart part) override;
  std::vector<int> BucketsGiven(const Action& action, LayerPart part) override;
  // REDUCE_GRAD: the sum over all copies of the stage; each member gets its pieces of sharded
  // gradients. UNSHARD gathers the parameters that graphs read, and RESHARD frees their memory for
  // others; both do nothing if parameters are always whole.
  absl::StatusOr<std::vector<Piece>> Collective(const Action& action,
                                                const Action* inside) override;

  // The data of a microbatch, in host memory: the first stage's tokens, the last stage's targets,
  // and the positions of packed sequences. Empty if the stages that read them are in another
  // process.
  absl::Span<int32_t> tokens(MicrobatchId microbatch) { return data_.tokens(microbatch); }
  absl::Span<int32_t> targets(MicrobatchId microbatch) { return data_.targets(microbatch); }
  absl::Span<int32_t> positions(MicrobatchId microbatch) { return data_.positions(microbatch); }
  void SetMaskKey(MicrobatchId microbatch, const MaskKey& key) {
    data_.SetMaskKey(microbatch, key);
  }
  // The last stage's forward result: the sum over the microbatch's tokens.
  double loss(MicrobatchId microbatch) const { return data_.loss(microbatch); }
  // The forward results of a stage's mixture-of-experts layer `layer`, from 0: the balance loss,
  // and the number of slots dropped because the experts were full.
  float aux_loss(StageId stage, MicrobatchId microbatch, int layer) const {
    return data_.TallyOf(stage, microbatch, layer);
  }
  float dropped(StageId stage, MicrobatchId microbatch, int layer) const {
    return data_.TallyOf(stage, microbatch, layers(stage) + layer);
  }
  const StatePieces& pieces(StageId stage) const { return params_.pieces(stage); }
  // The buckets in which collectives move the stage: all if parameters are gathered, else those
  // whose gradients are summed.
  int64_t buckets(StageId stage) const {
    const size_t summed = collectives_.Summed(stage).size();
    return static_cast<int64_t>(params_.gathers() ? pieces(stage).buckets().size()
                                                  : std::max<size_t>(summed, 1));
  }
  StateBytes state(StageId stage) const { return params_.state(stage); }
  // Calls by which all members of the shard group get whole parameters again after an update.
  std::vector<MemberCall> GatherUpdated(StageId stage) const {
    return collectives_.GatherUpdated(stage);
  }

  const MemoryPlan& memory() const { return memory_.places(); }

 private:
  struct Stage {
    char* gathered = nullptr;       // the graphs' parameters, from the last UNSHARD bound
    std::vector<int> gather_order;  // its buckets
    int unshards = 0;               // number of UNSHARDs bound
    std::vector<int> reduce_order;  // empty: not asked for yet, or nothing is summed
  };
  // A part or a piece of a program with the addresses of one microbatch.
  struct Bound {
    const ReadyGraph* program;
    Regions regions;
    int part;
    int first = -1, end = -1;  // for a piece: its nodes
  };

  Stages(const Plan& lowered, absl::Span<const StageProgram> programs, Kernels* kernels,
         const StateSharing& sharing, const Stages* lender = nullptr);
  std::vector<StageSizes> Sizes() const;
  bool Holds(absl::Span<const RankId> ranks, StageId stage) const;
  Piece Unshard(StageId stage, const Action* inside);
  // The buckets of the stage's REDUCE_GRAD in the order of their calls; found once.
  const std::vector<int>& ReduceOrderOf(StageId stage);
  // The program that an action runs, or runs first: a B in parts is an I and a W.
  const ReadyGraph& ProgramOf(const Action& action) const {
    const bool cut = action.kind == ActionKind::kBackward && layers(action.stage) > 0;
    return ready_.Of(action, cut ? ActionKind::kInputGradient : action.kind);
  }
  // The index of the part in that program's parts.
  int IndexOf(const Action& action, LayerPart part) const;
  Regions RegionsOf(const Action& action, ActionKind program, int chunk);

  const Plan& plan_;
  absl::Span<const StageProgram> programs_;
  StageParams params_;
  StepData data_;
  const ReadyPrograms ready_;
  StepMemory memory_;
  std::vector<Stage> stages_;
  MeshSeat seat_;
  std::optional<RankAllocator> allocator_;  // from Allocate
  StateCollectives collectives_;
  RowExchanges exchanges_;
  std::deque<Bound> bound_;  // an entry per part of an action
  HostCopies copies_;
  std::function<Piece(StageId stage, int step)> update_;
};

}  // namespace stringline
