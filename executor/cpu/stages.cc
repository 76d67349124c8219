#include "executor/cpu/stages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "executor/lanes.h"
#include "executor/placement.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "stages/init.h"

namespace stringline::cpu {
namespace {

absl::Status CheckFit(const Plan& plan, absl::Span<const StageProgram> programs) {
  if (plan.stages.size() != programs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", plan.stages.size(), " stages, the model ", programs.size()));
  }
  for (size_t s = 0; s < programs.size(); ++s) {
    if (programs[s].first != !plan.stages[s].previous.valid() ||
        programs[s].last != !plan.stages[s].next.valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", s, " of the model does not stand where the plan has it"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status AllocateInto(Device* device, int64_t bytes, T** target) {
  SL_ASSIGN_OR_RETURN(void* memory, device->Allocate(bytes));
  *target = static_cast<T*>(memory);
  return absl::OkStatus();
}

}  // namespace

Stages::Stages(const Plan& lowered, absl::Span<const StageProgram> programs)
    : plan_(lowered), programs_(programs) {
  for (const StageProgram& program : programs) {
    Stage& stage = stages_.emplace_back(program);
    for (const Graph* graph :
         {&program.forward, &program.backward, &program.input_gradient, &program.weight_gradient}) {
      stage.programs.emplace_back(*graph, stage.layout);
    }
  }
}

absl::StatusOr<std::unique_ptr<Stages>> Stages::Place(const Plan& lowered,
                                                      absl::Span<const StageProgram> programs) {
  SL_RETURN_IF_ERROR(CheckFit(lowered, programs));
  std::unique_ptr<Stages> stages(new Stages(lowered, programs));
  std::vector<StageBytes> bytes;
  for (const Stage& stage : stages->stages_) bytes.push_back(stage.layout.bytes);
  SL_ASSIGN_OR_RETURN(stages->memory_, PlanMemory(lowered, bytes));
  stages->lanes_ = LaneCounts(lowered, LanesOf(lowered));
  return stages;
}

int64_t Stages::arena_bytes() const {
  int64_t bytes = 0;
  for (const Stage& stage : stages_) {
    for (const Program& program : stage.programs) bytes = std::max(bytes, program.arena_bytes());
  }
  return bytes;
}

NeededMemory Stages::needed() const {
  NeededMemory needed;
  for (const Stage& stage : stages_) {
    needed.params += 2 * static_cast<double>(stage.layout.param_bytes);
  }
  for (size_t r = 0; r < lanes_.size(); ++r) {
    needed.activations += static_cast<double>(memory_.ranks[r].bytes);
    needed.activations += static_cast<double>(lanes_[r]) * static_cast<double>(arena_bytes());
  }
  const int64_t data = AlignUp(programs_.front().input.bytes()) +
                       AlignUp(programs_.back().target.bytes()) + kBufferAlignment;
  needed.activations += static_cast<double>(plan_.microbatches) * static_cast<double>(data);
  return needed;
}

absl::Status Stages::Allocate(uint64_t seed, Device* device) {
  for (size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    SL_RETURN_IF_ERROR(AllocateInto(device, stage.layout.param_bytes, &stage.params));
    SL_RETURN_IF_ERROR(AllocateInto(device, stage.layout.param_bytes, &stage.grads));
    for (size_t p = 0; p < programs_[s].params.size(); ++p) {
      Initialize(programs_[s].params[p], seed,
                 reinterpret_cast<float*>(stage.params + stage.layout.params[p]));
    }
  }
  const int64_t arena = arena_bytes();
  blocks_.resize(plan_.ranks());
  arenas_.resize(plan_.ranks());
  for (int r = 0; r < plan_.ranks(); ++r) {
    SL_RETURN_IF_ERROR(AllocateInto(device, memory_.ranks[r].bytes, &blocks_[r]));
    arenas_[r].resize(lanes_[r]);
    for (char*& of_lane : arenas_[r]) SL_RETURN_IF_ERROR(AllocateInto(device, arena, &of_lane));
  }
  const int64_t microbatches = plan_.microbatches;
  const int64_t token_bytes = AlignUp(programs_.front().input.bytes());
  const int64_t target_bytes = AlignUp(programs_.back().target.bytes());
  SL_RETURN_IF_ERROR(AllocateInto(device, microbatches * token_bytes, &tokens_));
  SL_RETURN_IF_ERROR(AllocateInto(device, microbatches * target_bytes, &targets_));
  return AllocateInto(device, microbatches * kBufferAlignment, &losses_);
}

char* Stages::AddressOf(StageId stage, MicrobatchId microbatch, ValueClass value_class) const {
  const int64_t offset = memory_.OffsetOf(stage, microbatch, value_class);
  return offset < 0 ? nullptr : blocks_[plan_.stage(stage).rank.value] + offset;
}

Work Stages::Compute(const Action& action, int lane) {
  const Stage& stage = stages_[action.stage.value];
  const int kind = static_cast<int>(action.kind);
  SL_CHECK(kind < kPrograms) << Print(plan_, action);
  Bound& bound = bound_.emplace_back();
  bound.program = &stage.programs[kind];
  auto set = [&](Region region, char* address) {
    bound.regions[static_cast<int>(region)] = address;
  };
  auto set_value = [&](Region region, ValueClass value_class) {
    set(region, AddressOf(action.stage, action.microbatch, value_class));
  };
  set(Region::kArena, arenas_[plan_.stage(action.stage).rank.value][lane]);
  set(Region::kParams, stage.params);
  set(Region::kGrads, stage.grads);
  set_value(Region::kInput, ValueClass::kInput);
  set_value(Region::kOutput, ValueClass::kOutput);
  set_value(Region::kSavedForInput, ValueClass::kSavedForInput);
  set_value(Region::kSavedForWeight, ValueClass::kSavedForWeight);
  set_value(Region::kStash, ValueClass::kStash);
  set_value(Region::kOutGrad, ValueClass::kOutGrad);
  set_value(Region::kInGrad, ValueClass::kInGrad);
  // A pipe's microbatch in the data of the whole step.
  const int32_t before =
      plan_.pipes.empty() ? 0 : plan_.pipes[plan_.stage(action.stage).pipe].first_microbatch;
  const MicrobatchId microbatch(before + action.microbatch.value);
  if (programs_[action.stage.value].first) {
    set(Region::kInput, reinterpret_cast<char*>(tokens(microbatch).data()));
  }
  if (programs_[action.stage.value].last) {
    set(Region::kTarget, reinterpret_cast<char*>(targets(microbatch).data()));
    set(Region::kLoss, losses_ + microbatch.value * kBufferAlignment);
  }
  return {[](const void* self, int64_t) {
            const auto& work = *static_cast<const Bound*>(self);
            work.program->Run(work.regions);
          },
          &bound, 0};
}

Bytes Stages::Payload(const Action& action) const {
  ValueClass value_class = ValueClass::kInput;
  if (action.kind == ActionKind::kSendForward) value_class = ValueClass::kOutput;
  if (action.kind == ActionKind::kSendBackward) value_class = ValueClass::kInGrad;
  if (action.kind == ActionKind::kRecvBackward) value_class = ValueClass::kOutGrad;
  return {AddressOf(action.stage, action.microbatch, value_class),
          stages_[action.stage.value].layout.bytes[static_cast<int>(value_class)]};
}

absl::Span<int32_t> Stages::tokens(MicrobatchId microbatch) {
  const Type& type = programs_.front().input;
  char* data = tokens_ + microbatch.value * AlignUp(type.bytes());
  return {reinterpret_cast<int32_t*>(data), static_cast<size_t>(type.elements())};
}

absl::Span<int32_t> Stages::targets(MicrobatchId microbatch) {
  const Type& type = programs_.back().target;
  char* data = targets_ + microbatch.value * AlignUp(type.bytes());
  return {reinterpret_cast<int32_t*>(data), static_cast<size_t>(type.elements())};
}

float Stages::loss(MicrobatchId microbatch) const {
  return *reinterpret_cast<const float*>(losses_ + microbatch.value * kBufferAlignment);
}

}  // namespace stringline::cpu
