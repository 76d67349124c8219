#include "schedlang/report/period.h"

#include <algorithm>
#include <vector>

#include "schedlang/plan/timeline.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

constexpr int kSteps = 4;

bool TakesTime(const std::vector<int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t ns) { return ns > 0; });
}

// The plan's computations and messages, step after step; every step has microbatches of its own.
Plan Repeated(const Plan& plan) {
  Plan steps = plan;
  steps.microbatches *= kSteps;
  for (Pipe& pipe : steps.pipes) {
    pipe.first_microbatch *= kSteps;
    pipe.microbatches *= kSteps;
  }
  steps.actions.clear();
  steps.first = {0};
  for (int r = 0; r < plan.ranks(); ++r) {
    for (int k = 0; k < kSteps; ++k) {
      for (Action action : plan.of(RankId(r))) {
        if (IsCollective(action.kind)) continue;
        action.microbatch.value += k * plan.microbatches_of(action.stage);
        steps.actions.push_back(action);
      }
    }
    steps.first.push_back(static_cast<uint32_t>(steps.actions.size()));
  }
  return steps;
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
  if (TakesTime(costs.unshard) || TakesTime(costs.reduce)) return std::nullopt;
  const absl::StatusOr<Timeline> timeline = Simulate(Repeated(lowered), costs, layout);
  if (!timeline.ok()) return std::nullopt;
  int64_t two_ns = 0;
  for (int r = 0; r < lowered.ranks(); ++r) {
    const int64_t begin_ns = EndOf(*timeline, RankId(r), kSteps / 2);
    two_ns = std::max(two_ns, EndOf(*timeline, RankId(r), kSteps) - begin_ns);
  }
  return (two_ns + 1) / 2;
}

}  // namespace stringline
