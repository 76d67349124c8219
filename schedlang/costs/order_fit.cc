#include "schedlang/costs/order_fit.h"

#include <vector>

#include "absl/numeric/int128.h"

namespace stringline {
namespace {

// The time of each group of the plan, and then of each message between two stages.
std::vector<int64_t> DurationsOf(const Plan& plan, const CostModel& costs) {
  std::vector<int64_t> times;
  for (size_t i = 0; i < plan.actions.size();) {
    const auto group = GroupAt(plan.actions, i);
    if (IsCompute(group[0].kind)) times.push_back(GroupCost(costs, group));
    i += group.size();
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId id(static_cast<int32_t>(s));
    const StageId next = plan.stage(id).next;
    if (!next.valid() || plan.stage(next).rank == plan.stage(id).rank) continue;
    times.push_back(HopOf(costs, {.kind = ActionKind::kSendForward, .stage = id}).all_ns());
    times.push_back(HopOf(costs, {.kind = ActionKind::kSendBackward, .stage = next}).all_ns());
  }
  return times;
}

bool AreProportional(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (absl::int128(a[0]) * b[i] != absl::int128(b[0]) * a[i]) return false;
  }
  return true;
}

}  // namespace

OrderFit OrderFitOf(const Plan& plan, const CostModel& costs) {
  if (plan.costs.empty()) return OrderFit::kNoCosts;
  const absl::StatusOr<CostModel> own = ResolveCosts(CostSpec(), plan);
  const bool alike = own.ok() && AreProportional(DurationsOf(plan, *own), DurationsOf(plan, costs));
  if (costs.of_order) return alike ? OrderFit::kOwn : OrderFit::kChanged;
  return alike ? OrderFit::kAlike : OrderFit::kOther;
}

}  // namespace stringline
