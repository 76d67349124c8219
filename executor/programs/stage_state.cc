// The parameters that a member keeps and updates: whole ones, or its own pieces. Blocks of the
// pieces say where everything lies, so that both are written alike.
#include "absl/strings/str_cat.h"
#include "executor/bf16.h"
#include "executor/programs/stages.h"
#include "schedlang/base/status.h"
#include "stages/init.h"

namespace stringline {

StateBytes Stages::state(StageId stage) const {
  const Stage& of = stages_[stage.value];
  return StateOf(of.layout, of.pieces, sharing_.sharding);
}

std::vector<Stages::Owned> Stages::OwnedBlocks(StageId stage) const {
  const Stage& of = stages_[stage.value];
  const bool whole_moments = sharing_.sharding == Sharding::kNone;
  std::vector<Owned> owned;
  for (const int b : of.pieces.BlocksOf(whole_moments ? 0 : seat_.shard)) {
    const StateBlock& block = of.pieces.blocks()[b];
    const auto count = static_cast<size_t>(block.count);
    const int64_t own_at = of.pieces.OwnAt(b);
    Owned& one = owned.emplace_back();
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

absl::Status Stages::WriteFirstValues(StageId stage, uint64_t seed, int expert_rank,
                                      Device* device) {
  const std::vector<Param>& params = programs_[stage.value].params;
  const Stage& of = stages_[stage.value];
  std::vector<float> values;
  const std::vector<Owned> owned = OwnedBlocks(stage);
  for (size_t p = 0; p < params.size(); ++p) {
    values.resize(params[p].type.elements());
    Initialize(params[p], seed, values.data(), expert_rank);
    if (!gathers()) {
      SL_RETURN_IF_ERROR(device->CopyNow(of.params + of.layout.params[p], values.data(),
                                         GradTypeOf(params[p]).bytes()));
      continue;
    }
    for (const Owned& one : owned) {
      const StateBlock& block = of.pieces.blocks()[one.block];
      if (block.param != static_cast<int>(p)) continue;
      SL_RETURN_IF_ERROR(device->CopyNow(one.values.data(), values.data() + block.first,
                                         block.count * static_cast<int64_t>(sizeof(float))));
    }
  }
  return RefreshWorking(stage, device);
}

absl::Status Stages::RefreshWorking(Device* device) {
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s].params == nullptr) continue;  // of a rank that is not here
    SL_RETURN_IF_ERROR(RefreshWorking(StageId(static_cast<int32_t>(s)), device));
  }
  return absl::OkStatus();
}

// Of all blocks that are here.
absl::Status Stages::RefreshWorking(StageId stage, Device* device) {
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
    } else if (of.pieces.OwnerOf(at) == seat_.shard) {
      SL_RETURN_IF_ERROR(refresh(of.params + of.pieces.OwnAt(at),
                                 of.working + of.pieces.OwnNarrowAt(at), block.count));
    }
  }
  return absl::OkStatus();
}

std::vector<MemberCall> Stages::GatherUpdated(StageId stage) const {
  std::vector<MemberCall> calls;
  if (sharing_.sharding == Sharding::kNone || gathers()) return calls;
  const Stage& of = stages_[stage.value];
  const Replicas::Seat seat = seat_.replicas->OfShards(seat_.coordinate, stage);
  const std::vector<Bucket>& buckets = of.pieces.buckets();
  for (size_t b = 0; b < buckets.size(); ++b) {
    const auto gather = [&](char* whole, const Pieces& pieces) {
      MemberCall& call = calls.emplace_back(MemberCall{seat.group, seat.member, {}});
      call.call.kind = CallKind::kAllGather;
      call.call.from = whole + pieces.begin[seat_.shard];
      call.call.to = whole;
      call.call.bytes = pieces.begin.back();
      call.call.pieces = &pieces;
      call.call.name = {PrintParameters, nullptr, NameOfBucket(stage, b)};
    };
    gather(of.params + buckets[b].at, buckets[b].pieces);
    if (buckets[b].narrow) gather(of.working + buckets[b].read_at, buckets[b].read);
  }
  return calls;
}

// Of the own pieces the update has done it.
void Stages::ClearGrads(StageId stage, NativeStream stream) {
  if (sharing_.sharding == Sharding::kNone) return;
  const Stage& of = stages_[stage.value];
  kernels_->ClearBehind(
      {of.grads, kBufferAlignment, of.layout.param_bytes / kBufferAlignment, nullptr, 0}, stream);
}

}  // namespace stringline
