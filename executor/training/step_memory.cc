#include "executor/training/step_memory.h"

#include <utility>

#include "schedlang/base/align.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/plan/effects.h"

namespace stringline {

absl::Status StepMemory::Place(absl::Span<const StageSizes> sizes, absl::Span<const RankId> ranks) {
  SL_ASSIGN_OR_RETURN(memory_, PlanMemoryOf(plan_, sizes, ranks));
  return absl::OkStatus();
}

absl::Status StepMemory::Allocate(absl::Span<const RankId> ranks, RankAllocator* allocator) {
  blocks_.resize(plan_.ranks());
  for (const RankId rank : ranks) {
    const RankMemory& memory = memory_.ranks[rank.value];
    RankBlocks& blocks = blocks_[rank.value];
    SL_ASSIGN_OR_RETURN(blocks.values, allocator->Take(rank, memory.block));
    SL_ASSIGN_OR_RETURN(blocks.gathered, allocator->Take(rank, memory.gathered));
    if (memory.host > 0) {
      SL_ASSIGN_OR_RETURN(void* const host, allocator->device()->AllocateHost(memory.host));
      blocks.host = static_cast<char*>(host);
    }
    for (const int64_t bytes : memory.arenas) {
      SL_ASSIGN_OR_RETURN(blocks.arenas.emplace_back(), allocator->Take(rank, bytes));
    }
  }
  return absl::OkStatus();
}

char* StepMemory::AddressOf(const Edge& edge, MicrobatchId microbatch, StageValue value) const {
  const int64_t offset = memory_.OffsetOf(EntryOf(plan_, edge, value), microbatch, value);
  const RankId rank = plan_.stage(LeadsHere(value) ? edge.to : edge.from).rank;
  return offset < 0 ? nullptr : blocks_[rank.value].values + offset;
}

char* StepMemory::AddressOf(StageId stage, MicrobatchId microbatch, StageValue value,
                            bool back) const {
  const int64_t offset = memory_.OffsetOf(stage, microbatch, value, back);
  const RankBlocks& blocks = blocks_[plan_.stage(stage).rank.value];
  if (offset < 0) return nullptr;
  return (IsOnHost(value) ? blocks.host : blocks.values) + offset;
}

int64_t StepMemory::StrideOf(StageId entry, StageValue value) const {
  const int64_t bytes = ready_.bytes(entry, value);
  return plan_.chunks == 1 ? bytes : AlignUp(bytes);
}

Bytes StepMemory::Payload(const Action& action) const {
  const StageValue value = MessageOf(action.kind);
  const Edge& edge = *EdgeOf(plan_, action);
  return {AddressOf(edge, action.microbatch, value), BytesOf(EntryOf(plan_, edge, value), value)};
}

char* StepMemory::RoomOf(StageId stage, int unshard) const {
  char* const room = blocks_[plan_.stage(stage).rank.value].gathered;
  return room == nullptr ? nullptr : room + memory_.gathers[stage.value][unshard];
}

void StepMemory::Bind(const Action& action, ActionKind program, int chunk, const HostCopies& copies,
                      Regions* regions) {
  const auto set = [&](Region region, char* address) {
    (*regions)[static_cast<int>(region)] = address;
  };
  const auto index = static_cast<uint32_t>(&action - plan_.actions.data());
  SL_CHECK(index < plan_.actions.size()) << Print(plan_, action);
  const int32_t rank = plan_.stage(action.stage).rank.value;
  const int twins = TwinsBefore(plan_, index, program) * plan_.chunks + chunk;
  set(Region::kArena, blocks_[rank].arenas[memory_.ranks[rank].ArenaOf(program, twins)]);
  for (int v = 0; v < kBuiltInValues; ++v) {
    const auto value = static_cast<StageValue>(v);
    if (Moves(value)) continue;
    char* const address =
        AddressOf(action.stage, action.microbatch, value, copies.IsBack(action, value));
    if (address != nullptr) set(RegionOf(value), address + chunk * StrideOf(action.stage, value));
  }
  std::vector<char*> further;
  if (plan_.slices > 1) BindSlices(action, regions, &further);
  BindEdges(action, chunk, regions, &further);
  if (!further.empty()) regions->further = further_.emplace_back(std::move(further));
}

void StepMemory::BindEdges(const Action& action, int chunk, Regions* regions,
                           std::vector<char*>* further) const {
  const StageGraph& graph = plan_.GraphOf(action.microbatch);
  for (const StageValue value : kMoving) {
    const auto edges = LeadsHere(value) ? graph.In(action.stage) : graph.Out(action.stage);
    for (size_t e = 0; e < edges.size(); ++e) {
      char* address = AddressOf(edges[e], action.microbatch, value);
      if (address != nullptr) address += chunk * StrideOf(EntryOf(plan_, edges[e], value), value);
      if (e > 0) {
        further->push_back(address);
      } else if (address != nullptr) {
        (*regions)[static_cast<int>(RegionOf(value))] = address;
      }
    }
  }
}

// The keys of the slices before the action's, and the gradients that it gives to the one before;
// or, without backwards, the keys that it gives to the one behind.
void StepMemory::BindSlices(const Action& action, Regions* regions,
                            std::vector<char*>* further) const {
  const int slice = plan_.SliceOf(action);
  const int32_t first = action.microbatch.value - slice;
  const auto of = [&](int k, StageValue value) {
    return AddressOf(action.stage, MicrobatchId(first + k), value);
  };
  const auto set = [&](Region region, char* address) {
    (*regions)[static_cast<int>(region)] = address;
  };
  if (plan_.forward_only) {
    if (slice + 1 < plan_.slices) set(Region::kKeysOn, of(slice + 1, StageValue::kSliceKeys));
    return;
  }
  for (int k = 0; k < slice; ++k) further->push_back(of(k, StageValue::kSliceKeys));
  if (slice > 0) set(Region::kKeyGradBefore, of(slice - 1, StageValue::kSliceKeyGrad));
}

}  // namespace stringline
