// The stages of a model on the CPU: their parameters and gradients, the buffers of a step, and what
// each action does with them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/available_memory.h"
#include "executor/cpu/program.h"
#include "executor/memory_plan.h"
#include "executor/replicas.h"
#include "executor/stage_work.h"
#include "schedlang/plan.h"
#include "stages/stage_program.h"

namespace stringline::cpu {

class Stages final : public StageWork {
 public:
  // One program per stage of the plan, in the order of the model. Decides where everything will
  // lie and takes no memory for it. `programs` and `lowered` outlive the object.
  static absl::StatusOr<std::unique_ptr<Stages>> Place(const Plan& lowered,
                                                       absl::Span<const StageProgram> programs);
  // Tells which coordinate of a mesh this is, and with whom gradients are summed. Before the
  // interpreter is made; without it there is nobody else.
  void Join(int coordinate, const Replicas* replicas);
  // What Allocate will take: for parameters and their gradients, and for all else.
  NeededMemory needed() const;
  // Takes all memory from `device`; parameters get their first values from `seed`.
  absl::Status Allocate(uint64_t seed, Device* device);

  Work Compute(const Action& action) override;
  std::vector<HostCopy> CopiesBefore(const Action& action) override;
  std::vector<HostCopy> CopiesAfter(const Action& action) override;
  Bytes Payload(const Action& send_or_recv) const override;
  // REDUCE_GRAD: the sum over all copies of the stage. Parameters are always whole.
  absl::StatusOr<Piece> Collective(const Action& action) override;

  // The data of a microbatch, in host memory: what the first stage reads and what the last one
  // compares with.
  absl::Span<int32_t> tokens(MicrobatchId microbatch);
  absl::Span<int32_t> targets(MicrobatchId microbatch);
  // What the last stage's forward gave: the sum over the microbatch's tokens.
  float loss(MicrobatchId microbatch) const { return losses_[microbatch.value]; }

  // By stage: all parameters in one block, each at its layout's offset; gradients likewise.
  const StageLayout& layout(StageId stage) const { return stages_[stage.value].layout; }
  float* params(StageId stage) { return reinterpret_cast<float*>(stages_[stage.value].params); }
  float* grads(StageId stage) { return reinterpret_cast<float*>(stages_[stage.value].grads); }

  const MemoryPlan& memory() const { return memory_; }

 private:
  static constexpr int kPrograms = 4;  // by ActionKind: F B I W
  struct Stage {
    explicit Stage(const StageProgram& program) : layout(program) {}
    StageLayout layout;
    std::vector<Program> programs;
    char* params = nullptr;
    char* grads = nullptr;
  };
  // A program with the addresses of one microbatch.
  struct Bound {
    const Program* program;
    Regions regions;
  };

  // The copies of a stage that its rank holds: their gradients are added up in the first one, and
  // the sum goes to all.
  struct Copies {
    Stages* owner;
    std::vector<StageId> stages;
  };

  Stages(const Plan& lowered, absl::Span<const StageProgram> programs);
  static void AddUp(const void* self, int64_t argument, NativeStream stream);
  static void HandOut(const void* self, int64_t argument, NativeStream stream);
  static std::string PrintGradients(const void* self, int64_t stage);
  int64_t arena_bytes(RankId rank) const;
  char* AddressOf(StageId stage, MicrobatchId microbatch, ValueClass value_class) const;
  // The action's microbatch in the data of the whole step.
  int32_t DataOf(const Action& action) const;
  char* device_tokens(int32_t data) const { return device_tokens_ + data * token_bytes_; }
  char* device_targets(int32_t data) const { return device_targets_ + data * target_bytes_; }
  char* device_loss(int32_t data) const;

  const Plan& plan_;
  absl::Span<const StageProgram> programs_;
  std::vector<Stage> stages_;
  MemoryPlan memory_;
  std::vector<char*> blocks_;    // by rank
  std::vector<char*> arenas_;    // by rank
  std::vector<int32_t> tokens_;  // on the host, by microbatch
  std::vector<int32_t> targets_;
  std::vector<float> losses_;
  int64_t token_bytes_;  // of a microbatch on the device
  int64_t target_bytes_;
  char* device_tokens_ = nullptr;
  char* device_targets_ = nullptr;
  char* device_losses_ = nullptr;  // aligned: two ranks may write at once
  std::deque<Bound> bound_;        // one per action
  int coordinate_ = 0;
  const Replicas* replicas_ = nullptr;
  std::deque<Copies> copies_;
  std::vector<int> came_to_sum_;  // by stage of the first copy on its rank: how many have
};

}  // namespace stringline::cpu
