#include "schedlang/plan/buckets.h"

#include <algorithm>

namespace stringline {
namespace {

// True for a reduction by which its rank adds up several replicas of the stage.
bool AddsUpReplicas(const Wiring& wiring, uint32_t reduce) {
  const Wire& wire = wiring.wires[reduce];
  if (wire.comes_with != kNoAction) return true;
  if (wire.meeting == kNoAction) return false;
  const auto members = wiring.reductions.of(static_cast<int>(wire.meeting));
  return std::any_of(members.begin(), members.end(), [&](const auto& member) {
    return !member.comes && wiring.wires[member.action].comes_with == reduce;
  });
}

// The action of the group at `begin` with the last weight gradient of the stage, or kNoAction.
uint32_t GiverIn(const Plan& plan, uint32_t begin, StageId stage) {
  const auto group = GroupAt(absl::MakeConstSpan(plan.actions), begin);
  for (size_t k = group.size(); k-- > 0;) {
    const bool gives = Performs(group[k].kind, ActionKind::kWeightGradient);
    if (gives && group[k].stage == stage) return begin + static_cast<uint32_t>(k);
  }
  return kNoAction;
}

}  // namespace

bool IsAlone(const Plan& plan, uint32_t i) {
  const bool joined_by_next = i + 1 < plan.actions.size() && plan.actions[i + 1].joined;
  return plan.chunks == 1 && !plan.actions[i].joined && !joined_by_next;
}

std::vector<uint32_t> MeetersOfBuckets(const Plan& plan, const Wiring& wiring) {
  std::vector<uint32_t> meeters;
  const bool collects = std::any_of(plan.actions.begin(), plan.actions.end(),
                                    [](const Action& action) { return IsCollective(action.kind); });
  if (!collects) return meeters;
  meeters.resize(plan.actions.size(), kNoAction);
  std::vector<bool> used(plan.actions.size(), false);  // by UNSHARD
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    const Wire& wire = wiring.wires[i];
    if (IsCompute(action.kind)) {
      if (wire.gathered == kNoAction || used[wire.gathered]) continue;
      used[wire.gathered] = true;
      if (IsAlone(plan, i)) meeters[wire.gathered] = i;
    } else if (action.kind == ActionKind::kReduceGrad && wire.after != kNoAction) {
      if (!AddsUpReplicas(wiring, i)) meeters[i] = GiverIn(plan, wire.after, action.stage);
    }
  }
  return meeters;
}

}  // namespace stringline
