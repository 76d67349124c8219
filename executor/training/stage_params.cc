#include "executor/training/stage_params.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/string_view.h"
#include "executor/engine/bf16.h"
#include "schedlang/base/align.h"
#include "schedlang/base/status.h"
#include "stages/init.h"

namespace stringline {
namespace {

// The names of parameters to which another is tied.
std::set<absl::string_view> TiedNames(absl::Span<const StageProgram> programs) {
  std::set<absl::string_view> names;
  for (const StageProgram& program : programs) {
    for (const Param& param : program.params) names.insert(param.tied_to);
  }
  return names;
}

std::vector<int> UpdatesBefore(const Plan& plan) {
  if (plan.versions == 1) return {};
  std::vector<int> before, updates(plan.stages.size(), 0);
  for (const Action& action : plan.actions) {
    before.push_back(updates[action.stage.value]);
    if (action.kind == ActionKind::kUpdate) ++updates[action.stage.value];
  }
  return before;
}

}  // namespace

StageParams::StageParams(const Plan& plan, absl::Span<const StageProgram> programs,
                         const StateSharing& sharing, const StageParams* lender)
    : plan_(plan),
      programs_(programs),
      sharing_(sharing),
      lender_(lender),
      updates_before_(UpdatesBefore(plan)) {
  const std::set<absl::string_view> tied = TiedNames(programs);
  for (const StageProgram& program : programs) {
    std::vector<bool> alone;
    for (const Param& param : program.params) {
      alone.push_back(!param.tied_to.empty() || tied.count(param.name) > 0);
    }
    StageLayout layout(program, gathers());
    StatePieces pieces(program, layout, alone, sharing.shards, sharing.bucket_bytes);
    stages_.push_back({std::move(layout), std::move(pieces)});
  }
}

StateBytes StageParams::state(StageId stage) const {
  if (lender_ != nullptr) return {};
  return StateOf(layout(stage), pieces(stage), sharing_.sharding, plan_.versions);
}

absl::Status StageParams::Allocate(StageId stage, const MeshSeat& seat, uint64_t seed,
                                   RankAllocator* allocator) {
  shard_ = seat.shard;
  Stage& of = stages_[stage.value];
  if (lender_ != nullptr) {
    of.params = lender_->params(stage);
    of.working = lender_->working(stage);
    return absl::OkStatus();
  }
  const RankId rank = plan_.stage(stage).rank;
  const StateBytes bytes = state(stage);
  SL_ASSIGN_OR_RETURN(of.params, allocator->Take(rank, bytes.params));
  SL_ASSIGN_OR_RETURN(of.grads, allocator->Take(rank, bytes.grads));
  SL_ASSIGN_OR_RETURN(of.working, allocator->Take(rank, bytes.working));
  SL_ASSIGN_OR_RETURN(of.older, allocator->Take(rank, bytes.older));
  return WriteFirstValues(stage, seed, seat.expert, allocator->device());
}

std::vector<OwnedBlock> StageParams::OwnedBlocks(StageId stage) const {
  const Stage& of = stages_[stage.value];
  const bool whole_moments = sharing_.sharding == Sharding::kNone;
  std::vector<OwnedBlock> owned;
  for (const int b : of.pieces.BlocksOf(whole_moments ? 0 : shard_)) {
    const StateBlock& block = of.pieces.blocks()[b];
    const auto count = static_cast<size_t>(block.count);
    const int64_t own_at = of.pieces.OwnAt(b);
    OwnedBlock& one = owned.emplace_back();
    one.block = b;
    one.values = {reinterpret_cast<float*>(of.params + (gathers() ? own_at : block.at)), count};
    one.gradient = {reinterpret_cast<float*>(of.grads + block.at), count};
    one.moment_at = whole_moments ? block.at : own_at;
    const Param& param = programs_[stage.value].params[block.param];
    if (param.type.dtype == DType::kF32) continue;
    const int64_t at = gathers() ? of.pieces.OwnNarrowAt(b) : block.read_at;
    one.working = {reinterpret_cast<uint16_t*>(of.working + at), count};
  }
  return owned;
}

absl::Status StageParams::WriteFirstValues(StageId stage, uint64_t seed, int expert_rank,
                                           Device* device) {
  const std::vector<Param>& params = programs_[stage.value].params;
  const Stage& of = stages_[stage.value];
  std::vector<float> values;
  const std::vector<OwnedBlock> owned = OwnedBlocks(stage);
  for (size_t p = 0; p < params.size(); ++p) {
    values.resize(params[p].type.elements());
    Initialize(params[p], seed, values.data(), expert_rank);
    if (!gathers()) {
      SL_RETURN_IF_ERROR(device->CopyNow(of.params + of.layout.params[p], values.data(),
                                         GradTypeOf(params[p]).bytes()));
      continue;
    }
    for (const OwnedBlock& one : owned) {
      const StateBlock& block = of.pieces.blocks()[one.block];
      if (block.param != static_cast<int>(p)) continue;
      SL_RETURN_IF_ERROR(device->CopyNow(one.values.data(), values.data() + block.first,
                                         block.count * static_cast<int64_t>(sizeof(float))));
    }
  }
  return RefreshStage(stage, device);
}

absl::Status StageParams::RefreshWorking(Device* device) {
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s].params == nullptr) continue;  // its rank is in another process
    SL_RETURN_IF_ERROR(RefreshStage(StageId(static_cast<int32_t>(s)), device));
  }
  return absl::OkStatus();
}

// Refreshes all blocks in this process.
absl::Status StageParams::RefreshStage(StageId stage, Device* device) {
  const Stage& of = stages_[stage.value];
  std::vector<float> values;
  std::vector<uint16_t> rounded;
  const auto refresh = [&](const char* from, char* to, int64_t count) -> absl::Status {
    values.resize(count);
    rounded.resize(count);
    SL_RETURN_IF_ERROR(
        device->CopyNow(values.data(), from, count * static_cast<int64_t>(sizeof(float))));
    ToBf16(values.data(), count, rounded.data());
    return device->CopyNow(to, rounded.data(), count * static_cast<int64_t>(sizeof(uint16_t)));
  };
  for (size_t b = 0; b < of.pieces.blocks().size(); ++b) {
    const StateBlock& block = of.pieces.blocks()[b];
    const auto at = static_cast<int>(b);
    if (programs_[stage.value].params[block.param].type.dtype == DType::kF32) continue;
    if (!gathers()) {
      SL_RETURN_IF_ERROR(refresh(of.params + block.at, of.working + block.read_at, block.count));
    } else if (of.pieces.OwnerOf(at) == shard_) {
      SL_RETURN_IF_ERROR(refresh(of.params + of.pieces.OwnAt(at),
                                 of.working + of.pieces.OwnNarrowAt(at), block.count));
    }
  }
  return absl::OkStatus();
}

// Version v, the one behind v updates, has place v modulo versions - 1. Update v + versions - 1
// takes its place, behind the gradients of the last step that reads it.
ReadParams StageParams::Older(StageId stage, int version) const {
  const StageLayout& layout = this->layout(stage);
  char* const at =
      stages_[stage.value].older + version % (plan_.versions - 1) * layout.read_bytes();
  return {at, at + layout.wide_bytes};
}

void StageParams::KeepVersion(StageId stage, int updates, Kernels* kernels, NativeStream stream) {
  if (plan_.versions == 1) return;
  const StageLayout& layout = this->layout(stage);
  const ReadParams kept = Older(stage, updates);
  const auto copy = [&](char* to, const char* from, int64_t bytes) {
    if (bytes > 0) kernels->Copy(to, from, bytes, stream);
  };
  copy(kept.params, params(stage), layout.wide_bytes);
  copy(kept.working, working(stage), layout.working_bytes);
}

ReadParams StageParams::ReadBy(uint32_t action) const {
  const StageId stage = plan_.actions[action].stage;
  const int version = std::max(0, plan_.StepOf(plan_.actions[action]) + 1 - plan_.versions);
  const bool latest = updates_before_.empty() || version >= updates_before_[action];
  return latest ? ReadParams{params(stage), working(stage)} : Older(stage, version);
}

void StageParams::ClearGrads(StageId stage, Kernels* kernels, NativeStream stream) {
  if (sharing_.sharding == Sharding::kNone) return;
  const Stage& of = stages_[stage.value];
  kernels->ClearBehind(
      {of.grads, kBufferAlignment, of.layout.param_bytes / kBufferAlignment, nullptr, 0}, stream);
}

absl::Span<float> StageParams::View(char* block, StageId stage, int index) const {
  const int64_t offset = layout(stage).params[index];
  const int64_t elements = programs_[stage.value].params[index].type.elements();
  return {reinterpret_cast<float*>(block + offset), static_cast<size_t>(elements)};
}

}  // namespace stringline
