// The stages of a model on a device: their parameters and gradients, the buffers of a step, and
// what each action does with them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/available_memory.h"
#include "executor/programs/ready_graph.h"
#include "executor/programs/state_pieces.h"
#include "executor/replicas.h"
#include "executor/sharding.h"
#include "executor/stage_work.h"
#include "schedlang/base/align.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan.h"
#include "stages/stage_program.h"

namespace stringline {

class Stages final : public StageWork {
 public:
  // One program per stage of the plan, in the order of the model. Decides where everything will
  // lie and takes no memory for it. All arguments outlive the object.
  // FailedPrecondition where an action would need parameters that are shared out and that nobody
  // has gathered.
  static absl::StatusOr<std::unique_ptr<Stages>> Place(const Plan& lowered,
                                                       absl::Span<const StageProgram> programs,
                                                       Kernels* kernels,
                                                       const StateSharing& sharing = {});
  // What `Place` reckons with, by stage. `plan` need not be lowered.
  static std::vector<StageSizes> SizesOf(const Plan& plan, absl::Span<const StageProgram> programs,
                                         Kernels* kernels, const StateSharing& sharing = {});
  // Where in a mesh these stages are: with whom they sum gradients and exchange experts' rows.
  // Before Allocate.
  struct Seat {
    int coordinate = 0;
    const Replicas* replicas = nullptr;
    std::vector<Group*> experts;  // by rank: all that share out the experts of its stages
    int expert = 0;               // as which member
    int shard = 0;                // the member of the shard group
  };
  void Join(Seat seat) { seat_ = std::move(seat); }
  // What Allocate will take for these ranks, and the caller for the two moments of parameters: for
  // parameters, their gradients, moments and working copies, and for all else.
  NeededMemory needed(absl::Span<const RankId> ranks) const;
  // The same by rank.
  std::vector<RankBytes> rank_bytes() const;
  // Memory of a rank, from the device, where the rank is.
  absl::StatusOr<void*> Take(RankId rank, int64_t bytes, Device* device);
  // Takes all memory of these ranks from `device`; their parameters get their first values from
  // `seed`, those of experts that of this expert rank. Only these ranks' stages have an address.
  absl::Status Allocate(uint64_t seed, int expert_rank, absl::Span<const RankId> ranks,
                        Device* device);
  // Makes the working copies of all BF16 parameters anew: after anybody but Kernels::Update has
  // written into parameters, as when a model is loaded. Between steps.
  absl::Status RefreshWorking(Device* device);

  int layers(StageId stage) const override { return stages_[stage.value].layout.layers; }
  Piece Compute(const Action& action, LayerPart part) override;
  std::vector<HostCopy> CopiesBefore(const Action& action) override;
  std::vector<HostCopy> CopiesAfter(const Action& action) override;
  Bytes Payload(const Action& send_or_recv) const override;
  // REDUCE_GRAD: the sum over all copies of the stage; of gradients that are shared out each member
  // gets its pieces. UNSHARD gathers what graphs read, and RESHARD lets others have the memory;
  // where parameters are always whole they do nothing.
  absl::StatusOr<Piece> Collective(const Action& action) override;

  // The data of a microbatch, in host memory: what the first stage reads and what the last one
  // compares with. Empty where neither is here.
  absl::Span<int32_t> tokens(MicrobatchId microbatch);
  absl::Span<int32_t> targets(MicrobatchId microbatch);
  // What the last stage's forward gave: the sum over the microbatch's tokens.
  float loss(MicrobatchId microbatch) const { return losses_[microbatch.value]; }
  // What the forward of a stage gave for its mixture-of-experts layer `layer`, from 0: the balance
  // loss, and how many slots no expert took.
  float aux_loss(StageId stage, MicrobatchId microbatch, int layer) const {
    return TallyOf(stage, microbatch, layer);
  }
  float dropped(StageId stage, MicrobatchId microbatch, int layer) const {
    return TallyOf(stage, microbatch, layers(stage) + layer);
  }

  // What the forward of a stage gave in a step, in host memory: losses and tallies of all its
  // microbatches. There is room for it, whichever process has the stage.
  std::vector<absl::Span<float>> Given(StageId stage);

  // What this member updates of a stage whose rank is here: all of it, or its own pieces.
  struct Owned {
    int block;  // of pieces(stage)
    absl::Span<float> values, gradient;
    absl::Span<uint16_t> working;
    int64_t moment_at;  // bytes, in the moments' memory
  };
  std::vector<Owned> OwnedBlocks(StageId stage) const;
  const StatePieces& pieces(StageId stage) const { return stages_[stage.value].pieces; }
  StateBytes state(StageId stage) const;
  // After an update: calls on the shard group by which all members get whole parameters again, and
  // zeros in whole gradients. Nothing where nothing is shared out.
  std::vector<MemberCall> GatherUpdated(StageId stage) const;
  void ClearGrads(StageId stage, NativeStream stream);

  // By stage: all parameters in one block, each at its layout's offset; gradients likewise. Not of
  // parameters that are shared out: of these there are only the own pieces, as pieces() has them.
  const StageLayout& layout(StageId stage) const { return stages_[stage.value].layout; }
  float* params(StageId stage) { return reinterpret_cast<float*>(stages_[stage.value].params); }
  float* grads(StageId stage) { return reinterpret_cast<float*>(stages_[stage.value].grads); }
  // Bits of BF16, as the layout has them.
  char* working(StageId stage) { return stages_[stage.value].working; }

  const MemoryPlan& memory() const { return memory_; }

 private:
  static constexpr int kPrograms = 4;  // by ActionKind: F B I W
  struct Stage {
    Stage(const StageProgram& program, const std::vector<bool>& alone, const StateSharing& sharing)
        : layout(program, sharing.sharding == Sharding::kParameters),
          pieces(program, layout, alone, sharing.shards, sharing.bucket_bytes) {}
    StageLayout layout;
    StatePieces pieces;
    std::vector<ReadyGraph> programs;
    char* params = nullptr;
    char* working = nullptr;
    char* gathered = nullptr;  // what graphs read, from the last UNSHARD that was asked for
    int unshards = 0;          // that were
    char* grads = nullptr;
    char* tallies = nullptr;         // by microbatch of the step
    absl::Span<float> host_tallies;  // the same
  };
  // A part of a program with the addresses of one microbatch.
  struct Bound {
    const ReadyGraph* program;
    Regions regions;
    int part;
  };
  // Whose exchange a call is, for messages.
  struct ExchangeName {
    const Stages* owner;
    Action action;
    LayerPart part;
  };
  // What one exchange brought back.
  struct Tails {
    Kernels* kernels;
    std::vector<CountedRows> all;
  };
  // The copies of a stage that its rank holds: their gradients are added up in the first one, and
  // the sum goes to all.
  struct Copies {
    Stages* owner;
    std::vector<StageId> stages;
  };

  Stages(const Plan& lowered, absl::Span<const StageProgram> programs, Kernels* kernels,
         const StateSharing& sharing);
  bool gathers() const { return sharing_.sharding == Sharding::kParameters; }
  bool ReadsParameters(const Action& action) const;
  absl::Status CheckGathered() const;
  Piece Unshard(StageId stage);
  Piece ReduceGrads(StageId stage);
  MemberCall SumOf(const Stage& stage, const Bucket& bucket, const Replicas::Seat& seat);
  absl::Status RefreshWorking(StageId stage, Device* device);
  int64_t NameOfBucket(StageId stage, size_t bucket) const {
    return (static_cast<int64_t>(bucket) << 32) + seat_.replicas->PartOf(stage);
  }
  absl::Status WriteFirstValues(StageId stage, uint64_t seed, int expert_rank, Device* device);
  static void AddUp(const void* self, int64_t argument, NativeStream stream);
  static void HandOut(const void* self, int64_t argument, NativeStream stream);
  static std::string PrintGradients(const void* self, int64_t bucket);
  static std::string PrintParameters(const void* self, int64_t bucket);
  std::vector<StageSizes> Sizes() const;
  bool Holds(absl::Span<const RankId> ranks, StageId stage) const;
  Regions RegionsOf(const Action& action, int program) const;
  Piece ExchangePiece(const Action& action, LayerPart part, const Bound& bound);
  static void ClearTails(const void* self, int64_t argument, NativeStream stream);
  static std::string PrintExchange(const void* self, int64_t index);
  int64_t TallyBytes(StageId stage) const { return 2 * layers(stage) * kBufferAlignment; }
  float TallyOf(StageId stage, MicrobatchId microbatch, int index) const;
  char* AddressOf(StageId stage, MicrobatchId microbatch, StageValue value) const;
  // The action's microbatch in the data of the whole step.
  int32_t DataOf(const Action& action) const;
  // What a first stage reads and a last one compares with and gives, of all its microbatches.
  struct DataBytes {
    int64_t tokens = 0, targets = 0, losses = 0;
  };
  DataBytes DataOfStage(StageId stage) const;
  absl::Status AllocateData(StageId stage, Device* device);

  const Plan& plan_;
  absl::Span<const StageProgram> programs_;
  Kernels* const kernels_;
  const StateSharing sharing_;
  std::vector<Stage> stages_;
  MemoryPlan memory_;
  std::vector<char*> blocks_;                       // by rank
  std::vector<char*> gathered_;                     // by rank
  std::vector<std::array<char*, kArenas>> arenas_;  // by rank
  absl::Span<int32_t> tokens_;                      // on the host, by microbatch
  absl::Span<int32_t> targets_;
  absl::Span<float> losses_;
  int64_t token_bytes_;  // of a microbatch on the device
  int64_t target_bytes_;
  std::vector<int64_t> allocated_;  // by rank
  // On the device, by microbatch of the step.
  std::vector<char*> device_tokens_;
  std::vector<char*> device_targets_;
  std::vector<char*> device_losses_;  // aligned: two ranks may write at once
  std::deque<Bound> bound_;           // one per part of an action
  std::deque<ExchangeName> exchange_names_;
  std::deque<RowCounts> row_counts_;
  std::deque<Tails> tails_;
  Seat seat_;
  std::deque<Copies> copies_;
  std::deque<Pieces> summed_pieces_;  // of calls, as their groups have them
  std::vector<int> came_to_sum_;      // by stage of the first copy on its rank: how many have
};

}  // namespace stringline
