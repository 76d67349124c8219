#include "executor/engine/step_values.h"

#include <algorithm>
#include <utility>

#include "schedlang/plan/effects.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

bool HasParts(const Plan& plan, const StageWork& work, RankId rank) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId stage(static_cast<int32_t>(s));
    if (plan.stages[s].rank == rank && work.layers(stage) > 0) return true;
  }
  return false;
}

}  // namespace

StepStreams::StepStreams(const Plan& plan, const StageWork& work, const std::vector<bool>& local,
                         bool collects, bool copies, StepCommands* commands) {
  using Kind = StepCommands::StreamKind;
  const auto add = [&](Kind kind, RankId rank, int index) {
    return local[rank.value] ? commands->AddStream(kind, rank, index) : -1;
  };
  for (int r = 0; r < plan.ranks(); ++r) {
    const RankId rank(r);
    const bool has_parts = HasParts(plan, work, rank);
    cut = cut || has_parts;
    compute.push_back(add(Kind::kCompute, rank, 0));
    network.push_back(has_parts ? add(Kind::kNetwork, rank, 0) : -1);
    collectives.push_back(collects ? add(Kind::kCollectives, rank, 0) : -1);
    offload.push_back(copies ? add(Kind::kOffload, rank, 0) : -1);
    fetch.push_back(copies ? add(Kind::kFetch, rank, 0) : -1);
    const bool owns = !plan.rows.actions.empty();
    own.push_back(owns ? add(Kind::kOwn, rank, 0) : -1);
    own_meetings.push_back(owns ? add(Kind::kOwn, rank, 1) : -1);
  }
  const std::vector<Channel>& channels = commands->channels().all;
  for (size_t c = 0; c < channels.size(); ++c) {
    send.push_back(add(Kind::kSend, channels[c].from, static_cast<int>(c)));
    recv.push_back(add(Kind::kRecv, channels[c].to, static_cast<int>(c)));
  }
  for (size_t s = 0; s < plan.stages.size() && plan.window > 0; ++s) {
    for (size_t sort = 0; sort < kReadySorts; ++sort) {
      const auto index = static_cast<int>(kReadySorts * s + sort);
      ready.push_back(add(Kind::kReady, plan.stages[s].rank, index));
    }
  }
}

int32_t StepStreams::Of(const Plan& plan, const Action& action) const {
  if (ready.empty()) return compute[plan.stage(action.stage).rank.value];
  return ready[kReadySorts * static_cast<size_t>(action.stage.value) + ReadySortOf(action.kind)];
}

StepValues::StepValues(const Plan& plan, const Wiring& wiring, StepCommands* commands)
    : plan_(plan),
      wiring_(wiring),
      commands_(commands),
      event_of_(plan.actions.size(), -1),
      input_from_(plan.graph.edges().size() * plan.microbatches, -1),
      out_grad_from_(input_from_),
      output_from_(plan.stages.size() * plan.microbatches, -1),
      in_grad_from_(output_from_) {}

// A collective or a copy may wait for any computation; otherwise only another rank that gets the
// output does.
bool StepValues::IsAwaited(const Action& action) const {
  if (!wiring_.wires.empty()) return true;
  const Values gives = EffectsOf(action.kind).gives;
  const StageGraph& graph = plan_.GraphOf(action.microbatch);
  const auto leaves = [&](absl::Span<const Edge> edges) {
    return std::any_of(edges.begin(), edges.end(),
                       [&](const Edge& edge) { return !plan_.SameRank(edge.from, edge.to); });
  };
  return ((gives & kOutput) && leaves(graph.Out(action.stage))) ||
         ((gives & kInGrad) && leaves(graph.In(action.stage)));
}

void StepValues::Gives(uint32_t i) {
  const Action& action = plan_.actions[i];
  const Values gives = EffectsOf(action.kind).gives;
  if (gives & kOutput) output_from_[Index(action)] = static_cast<int32_t>(i);
  if (gives & kInGrad) in_grad_from_[Index(action)] = static_cast<int32_t>(i);
}

void StepValues::Brings(uint32_t i, bool gradient) {
  std::vector<int32_t>& from = gradient ? out_grad_from_ : input_from_;
  const Action& recv = plan_.actions[i];
  from[Index(*EdgeOf(plan_, recv), recv.microbatch)] = static_cast<int32_t>(i);
}

void StepValues::WaitForNeeds(int32_t stream, uint32_t i) {
  const Action& action = plan_.actions[i];
  const Values needs = EffectsOf(action.kind).needs;
  const auto wait_for = [&](absl::Span<const Edge> edges, const std::vector<int32_t>& from) {
    for (const Edge& edge : edges) {
      const int32_t recv = from[Index(edge, action.microbatch)];
      if (recv >= 0) WaitForEnd(stream, recv);
    }
  };
  if (needs & kInput) wait_for(plan_.GraphOf(action.microbatch).In(action.stage), input_from_);
  if (needs & kOutGrad)
    wait_for(plan_.GraphOf(action.microbatch).Out(action.stage), out_grad_from_);
}

void StepValues::WaitForParameters(int32_t stream, uint32_t i) {
  if (wiring_.wires.empty() || wiring_.wires[i].gathered == kNoAction) return;
  WaitForEnd(stream, wiring_.wires[i].gathered);
}

void StepValues::WaitForCopies(int32_t stream, uint32_t i) {
  const CopyWire copy = wiring_.CopyOf(i);
  for (const uint32_t before : {copy.source, copy.after}) {
    if (before != kNoAction) WaitForEnd(stream, before);
  }
  if (copy.freed == kNoAction) return;
  freed_.resize(std::max(freed_.size(), static_cast<size_t>(stream) + 1), kNoAction);
  uint32_t& freed = freed_[static_cast<size_t>(stream)];
  if (std::exchange(freed, copy.freed) != copy.freed) WaitForEnd(stream, freed);
}

void StepValues::WaitForOwn(int32_t stream, uint32_t i) {
  for (const uint32_t need : wiring_.FurtherNeeds(i)) {
    if (!IsRecv(plan_.actions[need].kind)) WaitForEnd(stream, need);
  }
}

void StepValues::WaitForMaker(int32_t stream, const Action& send) {
  const std::vector<int32_t>& from =
      send.kind == ActionKind::kSendBackward ? in_grad_from_ : output_from_;
  WaitForEnd(stream, from[Index(send)]);
}

}  // namespace stringline
