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

uint32_t GatherMetBy(const Plan& plan, const Wiring& wiring, uint32_t i) {
  const uint32_t gather = wiring.wires[i].gathered;
  if (gather == kNoAction) return kNoAction;
  for (uint32_t k = i; k > wiring.meeters[gather]; --k) {
    if (!plan.actions[k].joined) return kNoAction;  // an earlier group met it
  }
  return gather;
}

int64_t PlaceOf(LayerPart part, int64_t layers) {
  const PartRow& row = RowOfPart(part.part);
  const bool forward = row.of == ActionKind::kForward;
  if (row.once) return forward ? 2 * layers : 0;
  const bool experts = part.part == kFExperts || part.part == kBExperts || part.part == kWExperts;
  if (forward) return 2 * part.layer + (experts ? 1 : 0);
  return 2 * (layers - 1 - part.layer) + (experts ? 1 : 2);
}

int64_t BucketsNeeded(ActionKind kind, LayerPart part, int64_t layers, int64_t buckets) {
  if (kind == ActionKind::kWeightGradient) return buckets;
  const bool reads =
      LaneOf(part.part) == Lane::kCompute && RowOfPart(part.part).of != ActionKind::kWeightGradient;
  if (!reads) return 0;
  const int64_t places = 2 * layers + 1;
  return ((PlaceOf(part, layers) + 1) * buckets + places - 1) / places;
}

std::vector<uint32_t> MeetersOfBuckets(const Plan& plan, const Wiring& wiring) {
  std::vector<uint32_t> meeters(plan.actions.size(), kNoAction);
  std::vector<bool> used(plan.actions.size(), false);  // by UNSHARD
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    const Wire& wire = wiring.wires[i];
    if (action.kind == ActionKind::kUpdate) continue;
    if (IsCompute(action.kind)) {
      if (wire.gathered == kNoAction || used[wire.gathered]) continue;
      used[wire.gathered] = true;
      meeters[wire.gathered] = i;
    } else if (action.kind == ActionKind::kReduceGrad && wire.after != kNoAction) {
      if (!AddsUpReplicas(wiring, i)) meeters[i] = GiverIn(plan, wire.after, action.stage);
    }
  }
  return meeters;
}

}  // namespace stringline
