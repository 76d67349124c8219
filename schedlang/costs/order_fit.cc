#include "schedlang/costs/order_fit.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/numeric/int128.h"
#include "schedlang/costs/work_shares.h"

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
  for (const Edge& edge : plan.graph.edges()) {
    if (plan.SameRank(edge.from, edge.to)) continue;
    for (const ActionKind send : {ActionKind::kSendForward, ActionKind::kSendBackward}) {
      times.push_back(HopOf(costs, edge, {.kind = send}).all_ns());
    }
  }
  return times;
}

bool AreProportional(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (absl::int128(a[0]) * b[i] != absl::int128(b[0]) * a[i]) return false;
  }
  return true;
}

// The time of every message between ranks; nothing if they differ.
std::optional<int64_t> TimeOfMessages(const Plan& plan, const CostModel& costs) {
  std::optional<int64_t> time;
  for (const Edge& edge : plan.graph.edges()) {
    if (plan.SameRank(edge.from, edge.to)) continue;
    for (const ActionKind send : {ActionKind::kSendForward, ActionKind::kSendBackward}) {
      const int64_t ns = HopOf(costs, edge, {.kind = send}).all_ns();
      if (time.value_or(ns) != ns) return std::nullopt;
      time = ns;
    }
  }
  return time.value_or(0);
}

// One value for all stages, or a value for each stage of a pipe; empty if pipes differ.
std::vector<int64_t> OfAPipe(const Plan& plan, std::vector<int64_t> values) {
  const auto stages = static_cast<size_t>(StagesOfModel(plan));
  for (size_t s = stages; s < values.size(); ++s) {
    if (values[s] != values[s % stages]) return {};
  }
  values.resize(stages);
  if (std::count(values.begin(), values.end(), values[0]) == static_cast<int64_t>(stages)) {
    values.resize(1);
  }
  return values;
}

}  // namespace

std::optional<OrderCosts> OrderCostsFrom(const Plan& plan, const CostModel& costs) {
  constexpr int64_t kMostCost = 1'000'000'000;
  const std::optional<int64_t> p2p = TimeOfMessages(plan, costs);
  if (!p2p || plan.stages.empty() || !costs.shares.tokens.empty()) return std::nullopt;
  OrderCosts order;
  order.p2p = *p2p;
  const std::vector<int64_t>* const times[] = {&costs.forward, &costs.backward,
                                               &costs.input_gradient, &costs.weight_gradient};
  int64_t unit = order.p2p;
  for (size_t k = 0; k < order.actions.size(); ++k) {
    std::vector<int64_t> values = *times[k];
    const auto kind = static_cast<ActionKind>(k);
    if (kind == ActionKind::kBackward || kind == ActionKind::kInputGradient) {
      for (size_t s = 0; s < costs.again.size() && !values.empty(); ++s) {
        values[s] -= costs.again[s];
      }
    }
    if (values.empty() || *std::min_element(values.begin(), values.end()) < 1) continue;
    order.actions[k] = OfAPipe(plan, std::move(values));
    for (const int64_t value : order.actions[k]) unit = std::gcd(unit, value);
  }
  if (order.empty()) return std::nullopt;
  order.p2p /= unit;
  bool fits = order.p2p <= kMostCost;
  for (std::vector<int64_t>& values : order.actions) {
    for (int64_t& value : values) {
      value /= unit;
      fits = fits && value <= kMostCost;
    }
  }
  return fits ? std::optional(order) : std::nullopt;
}

OrderFit OrderFitOf(const Plan& plan, const CostModel& costs) {
  if (plan.costs.empty()) return OrderFit::kNoCosts;
  const absl::StatusOr<CostModel> own = ResolveCosts(CostSpec(), plan);
  const bool alike = own.ok() && AreProportional(DurationsOf(plan, *own), DurationsOf(plan, costs));
  if (costs.of_order) return alike ? OrderFit::kOwn : OrderFit::kChanged;
  return alike ? OrderFit::kAlike : OrderFit::kOther;
}

}  // namespace stringline
