#include "schedlang/report/period.h"

#include <algorithm>
#include <vector>

#include "schedlang/plan/repeat_steps.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

constexpr int kSteps = 4;

bool TakesTime(const std::vector<int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t ns) { return ns > 0; });
}

// The plan's computations and messages, step after step.
Plan Repeated(const Plan& plan) {
  Plan step = plan;
  step.actions.clear();
  step.first = {0};
  for (int r = 0; r < plan.ranks(); ++r) {
    for (const Action& action : plan.of(RankId(r))) {
      if (!IsCollective(action.kind)) step.actions.push_back(action);
    }
    step.first.push_back(static_cast<uint32_t>(step.actions.size()));
  }
  return RepeatActions(step, kSteps);
}

// When the rank has ended its first so many steps.
int64_t EndOf(const Timeline& timeline, RankId rank, int steps) {
  const auto events = timeline.of(rank);
  int64_t end_ns = 0;
  for (const Event& event : events.first(events.size() / kSteps * static_cast<size_t>(steps))) {
    if (IsCompute(event.kind)) end_ns = std::max(end_ns, event.end_ns);
  }
  return end_ns;
}

}  // namespace

std::optional<int64_t> PeriodOf(const Plan& lowered, const CostModel& costs, CommLayout layout) {
  if (lowered.steps > 1 || TakesTime(costs.unshard) || TakesTime(costs.reduce)) {
    return std::nullopt;
  }
  const absl::StatusOr<Timeline> timeline = Simulate(Repeated(lowered), costs, layout);
  if (!timeline.ok()) return std::nullopt;
  int64_t two_ns = 0;
  for (int r = 0; r < lowered.ranks(); ++r) {
    const int64_t begin_ns = EndOf(*timeline, RankId(r), kSteps / 2);
    two_ns = std::max(two_ns, EndOf(*timeline, RankId(r), kSteps) - begin_ns);
  }
  return (two_ns + 1) / 2;
}

std::optional<SteadySteps> SteadyStepsOf(const Plan& plan, const Timeline& timeline) {
  if (plan.steps == 1) return std::nullopt;
  const int last = plan.steps == 2 ? 1 : plan.steps - 2;
  SteadySteps steady;
  int64_t all_ns = 0, busy_ns = 0;
  for (int r = 0; r < timeline.ranks(); ++r) {
    int64_t begin_ns = 0, end_ns = 0;  // the ends of the first step, and of the last that counts
    const auto events = timeline.of(RankId(r));
    for (const Event& event : events) {
      if (event.kind != ActionKind::kUpdate) continue;
      if (event.microbatch.value == 0) begin_ns = std::max(begin_ns, event.end_ns);
      if (event.microbatch.value == last) end_ns = std::max(end_ns, event.end_ns);
    }
    for (const Event& event : events) {
      if (!IsCompute(event.kind) || event.joined) continue;
      const int64_t from_ns = std::max(event.start_ns, begin_ns);
      const int64_t until_ns = std::min(event.end_ns, end_ns);
      busy_ns += std::max<int64_t>(until_ns - from_ns, 0);
    }
    const int64_t length_ns = end_ns - begin_ns;
    all_ns += length_ns;
    steady.period_ns = std::max(steady.period_ns, (length_ns + last - 1) / last);
  }
  if (all_ns > 0) steady.bubble = 1 - static_cast<double>(busy_ns) / static_cast<double>(all_ns);
  return steady;
}

}  // namespace stringline
