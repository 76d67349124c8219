#include "executor/cpu/stages.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
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
    : plan_(lowered),
      programs_(programs),
      token_bytes_(AlignUp(programs.front().input.bytes())),
      target_bytes_(AlignUp(programs.back().target.bytes())) {
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
  return stages;
}

// The programs of a rank run one after the other.
int64_t Stages::arena_bytes(RankId rank) const {
  int64_t bytes = 0;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (plan_.stages[s].rank != rank) continue;
    for (const Program& program : stages_[s].programs) {
      bytes = std::max(bytes, program.arena_bytes());
    }
  }
  return bytes;
}

NeededMemory Stages::needed() const {
  NeededMemory needed;
  for (const Stage& stage : stages_) {
    needed.params += 2 * static_cast<double>(stage.layout.param_bytes);
  }
  for (int r = 0; r < plan_.ranks(); ++r) {
    needed.activations += static_cast<double>(memory_.ranks[r].bytes);
    needed.activations += static_cast<double>(arena_bytes(RankId(r)));
  }
  const int64_t data = token_bytes_ + target_bytes_ + kBufferAlignment +
                       programs_.front().input.bytes() + programs_.back().target.bytes();
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
  blocks_.resize(plan_.ranks());
  arenas_.resize(plan_.ranks());
  for (int r = 0; r < plan_.ranks(); ++r) {
    SL_RETURN_IF_ERROR(AllocateInto(device, memory_.ranks[r].bytes, &blocks_[r]));
    SL_RETURN_IF_ERROR(AllocateInto(device, arena_bytes(RankId(r)), &arenas_[r]));
  }
  const int64_t microbatches = plan_.microbatches;
  tokens_.resize(microbatches * programs_.front().input.elements());
  targets_.resize(microbatches * programs_.back().target.elements());
  losses_.resize(microbatches);
  SL_RETURN_IF_ERROR(AllocateInto(device, microbatches * token_bytes_, &device_tokens_));
  SL_RETURN_IF_ERROR(AllocateInto(device, microbatches * target_bytes_, &device_targets_));
  return AllocateInto(device, microbatches * kBufferAlignment, &device_losses_);
}

char* Stages::AddressOf(StageId stage, MicrobatchId microbatch, ValueClass value_class) const {
  const int64_t offset = memory_.OffsetOf(stage, microbatch, value_class);
  return offset < 0 ? nullptr : blocks_[plan_.stage(stage).rank.value] + offset;
}

int32_t Stages::DataOf(const Action& action) const {
  const int32_t before =
      plan_.pipes.empty() ? 0 : plan_.pipes[plan_.stage(action.stage).pipe].first_microbatch;
  return before + action.microbatch.value;
}

char* Stages::device_loss(int32_t data) const { return device_losses_ + data * kBufferAlignment; }

std::vector<HostCopy> Stages::CopiesBefore(const Action& action) {
  std::vector<HostCopy> copies;
  if (action.kind != ActionKind::kForward) return copies;
  const StageProgram& program = programs_[action.stage.value];
  const int32_t data = DataOf(action);
  const auto copy = [&](char* to, absl::Span<const int32_t> from) {
    copies.push_back({to, from.data(), static_cast<int64_t>(from.size() * sizeof(int32_t))});
  };
  if (program.first) copy(device_tokens(data), tokens(MicrobatchId(data)));
  if (program.last) copy(device_targets(data), targets(MicrobatchId(data)));
  return copies;
}

std::vector<HostCopy> Stages::CopiesAfter(const Action& action) {
  if (action.kind != ActionKind::kForward || !programs_[action.stage.value].last) return {};
  const int32_t data = DataOf(action);
  return {{&losses_[data], device_loss(data), sizeof(float)}};
}

Work Stages::Compute(const Action& action) {
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
  set(Region::kArena, arenas_[plan_.stage(action.stage).rank.value]);
  set(Region::kParams, stage.params);
  set(Region::kGrads, stage.grads);
  set_value(Region::kInput, ValueClass::kInput);
  set_value(Region::kOutput, ValueClass::kOutput);
  set_value(Region::kSavedForInput, ValueClass::kSavedForInput);
  set_value(Region::kSavedForWeight, ValueClass::kSavedForWeight);
  set_value(Region::kStash, ValueClass::kStash);
  set_value(Region::kOutGrad, ValueClass::kOutGrad);
  set_value(Region::kInGrad, ValueClass::kInGrad);
  const int32_t data = DataOf(action);
  if (programs_[action.stage.value].first) set(Region::kInput, device_tokens(data));
  if (programs_[action.stage.value].last) {
    set(Region::kTarget, device_targets(data));
    set(Region::kLoss, device_loss(data));
  }
  return {[](const void* self, int64_t, NativeStream) {
            const auto& work = *static_cast<const Bound*>(self);
            work.program->Run(work.regions);
          },
          &bound, 0};
}

void Stages::Join(int coordinate, const Replicas* replicas) {
  coordinate_ = coordinate;
  replicas_ = replicas;
  came_to_sum_.assign(plan_.stages.size(), 0);
}

absl::StatusOr<Piece> Stages::Collective(const Action& action) {
  if (action.kind != ActionKind::kReduceGrad) {
    return absl::UnimplementedError(
        "every rank keeps the parameters of its stages whole; the plan without UNSHARD and RESHARD "
        "can be run");
  }
  Piece piece;
  if (replicas_ == nullptr) return piece;
  std::vector<StageId> copies = replicas_->OnItsRank(action.stage);
  const StageId first = copies[0];
  if (++came_to_sum_[first.value] < static_cast<int>(copies.size())) return piece;
  const Stage& stage = stages_[first.value];
  const auto add_call = [&](const Replicas::Seat& seat, int64_t begin, int64_t end) {
    if (seat.group == nullptr || begin == end) return;
    MemberCall& call = piece.calls.emplace_back(MemberCall{seat.group, seat.member, {}});
    call.call.kind = CallKind::kAllReduce;
    call.call.from = call.call.to = stage.grads + begin;
    call.call.bytes = end - begin;
    call.call.name = {PrintGradients, nullptr, replicas_->PartOf(first)};
  };
  add_call(replicas_->OfDense(coordinate_, first), 0, stage.layout.dense_bytes);
  add_call(replicas_->OfExperts(coordinate_, first), stage.layout.dense_bytes,
           stage.layout.param_bytes);
  if (copies.size() > 1) {
    copies_.push_back({this, std::move(copies)});
    piece.work = {AddUp, &copies_.back(), 0};
    piece.after = {HandOut, &copies_.back(), 0};
  }
  return piece;
}

void Stages::AddUp(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
  const auto& copies = *static_cast<const Copies*>(self);
  float* const sum = copies.owner->grads(copies.stages[0]);
  const int64_t count = copies.owner->layout(copies.stages[0]).param_bytes / sizeof(float);
  for (size_t c = 1; c < copies.stages.size(); ++c) {
    const float* const more = copies.owner->grads(copies.stages[c]);
    for (int64_t i = 0; i < count; ++i) sum[i] += more[i];
  }
}

void Stages::HandOut(const void* self, int64_t /*argument*/, NativeStream /*stream*/) {
  const auto& copies = *static_cast<const Copies*>(self);
  const float* const sum = copies.owner->grads(copies.stages[0]);
  const int64_t bytes = copies.owner->layout(copies.stages[0]).param_bytes;
  for (size_t c = 1; c < copies.stages.size(); ++c) {
    std::memcpy(copies.owner->grads(copies.stages[c]), sum, bytes);
  }
}

std::string Stages::PrintGradients(const void* /*self*/, int64_t stage) {
  return absl::StrCat("the gradients of stage ", stage);
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
  const int64_t count = programs_.front().input.elements();
  return absl::MakeSpan(tokens_).subspan(microbatch.value * count, count);
}

absl::Span<int32_t> Stages::targets(MicrobatchId microbatch) {
  const int64_t count = programs_.back().target.elements();
  return absl::MakeSpan(targets_).subspan(microbatch.value * count, count);
}

}  // namespace stringline::cpu
