#include "executor/held_stages.h"

#include "executor/held_device.h"

namespace stringline {

HeldStages::HeldStages(const Plan& plan, const CostModel& costs)
    : stages_(plan.stages.size()),
      microbatches_(plan.microbatches),
      unshard_ns_(costs.unshard),
      reduce_ns_(costs.reduce),
      hold_ns_(4 * stages_ * microbatches_, 0) {
  for (size_t begin = 0; begin < plan.actions.size();) {
    const auto group = GroupAt(plan.actions, begin);
    if (IsCompute(group[0].kind)) {
      int64_t cost_ns = GroupCost(costs, group);
      if (!costs.noise.empty()) cost_ns = costs.noise.Of(static_cast<uint32_t>(begin), cost_ns);
      hold_ns_[Index(group[0])] = cost_ns;
    }
    begin += group.size();
  }
}

Work HeldStages::Compute(const Action& action) {
  return HeldDevice::HoldFor(hold_ns_[Index(action)]);
}

absl::StatusOr<Piece> HeldStages::Collective(const Action& action) {
  const std::vector<int64_t>& costs_ns =
      action.kind == ActionKind::kUnshard ? unshard_ns_ : reduce_ns_;
  const bool free = action.kind == ActionKind::kReshard || costs_ns.empty();
  return Piece{HeldDevice::HoldFor(free ? 0 : costs_ns[action.stage.value]), {}};
}

size_t HeldStages::Index(const Action& action) const {
  return (static_cast<size_t>(action.kind) * stages_ + static_cast<size_t>(action.stage.value)) *
             microbatches_ +
         static_cast<size_t>(action.microbatch.value);
}

}  // namespace stringline
