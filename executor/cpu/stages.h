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
  // What Allocate will take: for parameters and their gradients, and for all else.
  NeededMemory needed() const;
  // Takes all memory from `device`; parameters get their first values from `seed`.
  absl::Status Allocate(uint64_t seed, Device* device);

  Work Compute(const Action& action, int lane) override;
  Bytes Payload(const Action& send_or_recv) const override;

  // The data of a microbatch: what the first stage reads and what the last one compares with.
  absl::Span<int32_t> tokens(MicrobatchId microbatch);
  absl::Span<int32_t> targets(MicrobatchId microbatch);
  // What the last stage's forward wrote: the sum over the microbatch's tokens.
  float loss(MicrobatchId microbatch) const;

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

  Stages(const Plan& lowered, absl::Span<const StageProgram> programs);
  int64_t arena_bytes() const;  // of each lane
  char* AddressOf(StageId stage, MicrobatchId microbatch, ValueClass value_class) const;

  const Plan& plan_;
  absl::Span<const StageProgram> programs_;
  std::vector<Stage> stages_;
  MemoryPlan memory_;
  std::vector<int> lanes_;                  // by rank
  std::vector<char*> blocks_;               // by rank
  std::vector<std::vector<char*>> arenas_;  // by rank and lane
  char* tokens_ = nullptr;                  // by microbatch
  char* targets_ = nullptr;
  char* losses_ = nullptr;   // by microbatch, aligned: two ranks may write at once
  std::deque<Bound> bound_;  // one per action
};

}  // namespace stringline::cpu
