// The memory of stages that lasts from step to step: parameters, their working copies in BF16,
// gradients, and older versions of the parameters. A member of a shard group keeps whole
// parameters, or its own pieces of them; both are lists of blocks with their offsets, and are
// written alike.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/engine/device.h"
#include "executor/engine/kernels.h"
#include "executor/training/rank_allocator.h"
#include "executor/training/ready_graph.h"
#include "executor/training/replicas.h"
#include "executor/training/sharding.h"
#include "executor/training/state_pieces.h"
#include "schedlang/plan/plan.h"
#include "stages/stage_program.h"

namespace stringline {

// A block of a stage of this process that this member updates: all blocks, or its own pieces'.
struct OwnedBlock {
  int block;  // index in the stage's pieces
  absl::Span<float> values, gradient;
  absl::Span<uint16_t> working;
  int64_t moment_at;  // byte offset in the moments' memory
};

// The addresses at which graphs read parameters.
struct ReadParams {
  char* params = nullptr;   // those in FP32
  char* working = nullptr;  // those in BF16
};

class StageParams {
 public:
  // Lays out the stages, and takes no memory. All arguments outlive the object. With a lender the
  // parameters are the lender's, of the same stages on the same ranks: there is no state besides.
  StageParams(const Plan& plan, absl::Span<const StageProgram> programs,
              const StateSharing& sharing, const StageParams* lender = nullptr);

  // Takes the memory of a stage of this process. Parameters get their first values from `seed`,
  // experts' those of the seat's expert rank.
  absl::Status Allocate(StageId stage, const MeshSeat& seat, uint64_t seed,
                        RankAllocator* allocator);
  // Recomputes the working copies of all BF16 parameters: needed after any write to parameters
  // other than Kernels::Update, as when a model is loaded. Between steps.
  absl::Status RefreshWorking(Device* device);
  // Copies the latest version, before an update of so many earlier ones in a run of the plan, where
  // later computations read it still (Plan::versions).
  void KeepVersion(StageId stage, int updates, Kernels* kernels, NativeStream stream);
  // The version that an action of the plan reads.
  ReadParams ReadBy(uint32_t action) const;
  // Zeros for whole gradients, of which an update clears the own pieces only.
  void ClearGrads(StageId stage, Kernels* kernels, NativeStream stream);

  // True if members keep their own pieces only, so that parameters must be gathered.
  bool gathers() const { return sharing_.sharding == Sharding::kParameters; }
  const StageLayout& layout(StageId stage) const { return stages_[stage.value].layout; }
  const StatePieces& pieces(StageId stage) const { return stages_[stage.value].pieces; }
  StateBytes state(StageId stage) const;
  std::vector<OwnedBlock> OwnedBlocks(StageId stage) const;

  // By stage: all parameters in one block, each at its layout's offset; gradients likewise, and
  // working copies as BF16 bits. Of sharded parameters only the own pieces exist, as laid out by
  // pieces(). Null for a stage in another process.
  char* params(StageId stage) const { return stages_[stage.value].params; }
  char* grads(StageId stage) const { return stages_[stage.value].grads; }
  char* working(StageId stage) const { return stages_[stage.value].working; }
  // A parameter of the stage, and its gradient.
  absl::Span<float> param(StageId stage, int index) const {
    return View(params(stage), stage, index);
  }
  absl::Span<float> grad(StageId stage, int index) const {
    return View(grads(stage), stage, index);
  }

 private:
  struct Stage {
    StageLayout layout;
    StatePieces pieces;
    char* params = nullptr;
    char* working = nullptr;
    char* grads = nullptr;
    char* older = nullptr;  // versions - 1 of what graphs read, in a ring
  };
  ReadParams Older(StageId stage, int version) const;
  absl::Status WriteFirstValues(StageId stage, uint64_t seed, int expert_rank, Device* device);
  absl::Status RefreshStage(StageId stage, Device* device);
  absl::Span<float> View(char* block, StageId stage, int index) const;

  const Plan& plan_;
  const absl::Span<const StageProgram> programs_;
  const StateSharing sharing_;
  const StageParams* const lender_;
  std::vector<Stage> stages_;
  const std::vector<int> updates_before_;  // by action: those of its stage; empty: of one version
  int shard_ = 0;                          // of the seat
};

}  // namespace stringline
