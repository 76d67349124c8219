#include "schedlang/tune/better_order.h"

#include <algorithm>
#include <utility>

#include "schedlang/ask/search_session.h"
#include "schedlang/base/status.h"
#include "schedlang/tune/evaluate.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {

absl::StatusOr<BetterOrder> FindBetterOrder(const BaseCosts& base, const Choice& choice,
                                            const SearchBudget& budget, const Stop* stop) {
  const KnownSchedule& schedule = KnownSchedules()[static_cast<size_t>(choice.schedule)];
  SL_ASSIGN_OR_RETURN(StagedCosts staged, StagedCostsOf(base, choice));
  if (!staged.stages.pipes.empty() || staged.stages.slices > 1 || choice.pipeline == 1) {
    return absl::InvalidArgumentError("a search takes one pipe of several ranks, without slices");
  }
  staged.stages.schedule = "found";
  staged.stages.parameters = {{"P", choice.pipeline}, {"M", choice.microbatches}};
  SearchRequest request{.stages = {std::move(staged.stages)}};
  const StepCosts costs = CostsOfStep(base, choice);
  request.costs.spec = costs.spec;
  request.costs.slow = costs.slow;
  request.costs.slow_links = costs.slow_links;
  request.limits.pairs = schedule.pairs;
  request.budget = budget;
  request.stop = stop;
  SL_ASSIGN_OR_RETURN(FoundSchedule found, SearchSchedule(request, [](const SearchProgress&) {}));
  BetterOrder better;
  better.step_ns = StepNs(found.lowered, found.costs, found.timeline);
  SL_ASSIGN_OR_RETURN(better.bytes, CheckedBytesOf(found.lowered, found.costs));
  PreparedPlan plan;
  plan.written = std::move(found.plan);
  plan.lowered = std::move(found.lowered);
  plan.wiring = WiringOf(plan.lowered, CommLayout::kEdge);
  better.plan = std::make_shared<const PreparedPlan>(std::move(plan));
  return better;
}

}  // namespace stringline::tune
