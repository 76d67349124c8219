#include "executor/held_stages.h"

#include "executor/lanes.h"

namespace stringline {

HeldStages::HeldStages(const Plan& plan, const CostModel& costs)
    : stages_(plan.stages.size()),
      microbatches_(plan.microbatches),
      hold_ns_(4 * stages_ * microbatches_, 0) {
  const std::vector<uint8_t> lanes = LanesOf(plan);
  for (size_t begin = 0; begin < plan.actions.size();) {
    const auto group = GroupAt(plan.actions, begin);
    if (!IsCompute(group[0].kind)) {
      ++begin;
      continue;
    }
    int64_t cost_ns = GroupCost(costs, group);
    if (!costs.noise.empty()) cost_ns = costs.noise.Of(static_cast<uint32_t>(begin), cost_ns);
    int held = -1;  // lanes of a group come in rising order, but for parts that share one
    for (size_t k = 0; k < group.size(); ++k) {
      const int lane = lanes[begin + k];
      if (lane <= held) continue;
      held = lane;
      hold_ns_[Index(group[k])] = cost_ns;
    }
    begin += group.size();
  }
}

Work HeldStages::Compute(const Action& /*action*/, int /*lane*/) {
  return {[](const void*, int64_t) {}, nullptr, 0};
}

int64_t HeldStages::HoldNs(const Action& action, int /*lane*/) { return hold_ns_[Index(action)]; }

size_t HeldStages::Index(const Action& action) const {
  return (static_cast<size_t>(action.kind) * stages_ + static_cast<size_t>(action.stage.value)) *
             microbatches_ +
         static_cast<size_t>(action.microbatch.value);
}

}  // namespace stringline
