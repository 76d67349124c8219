// Draws of plain steps, and further steps of them, are walked at once (drawn_times.h); where links,
// buffers or collectives make ranks wait, every order is lowered and simulated.
#include "schedlang/ask/true_value.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedlang/ask/jitter.h"
#include "schedlang/base/status.h"
#include "schedlang/plan/repeat_steps.h"
#include "schedlang/report/period.h"
#include "schedlang/report/variations.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

bool TakesTime(const std::vector<int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t ns) { return ns > 0; });
}

// True if ranks wait for more than the optimiser counts.
bool HasFurtherWaits(const CostModel& costs) {
  if (costs.receive_buffers > 0 || TakesTime(costs.unshard) || TakesTime(costs.reduce)) return true;
  for (const auto* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
    for (const Hop& hop : *hops) {
      if (hop.link >= 0 && hop.transfer_ns > 0) return true;
    }
  }
  return false;
}

int64_t SimulatedOnce(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
                      const SearchGoal& goal) {
  const absl::StatusOr<Timeline> timeline = Simulate(lowered, wiring, costs);
  if (!timeline.ok()) return search::kNoLimit;
  switch (goal.objective) {
    case search::Objective::kMakespan:
      return MakespanOf(*timeline);
    case search::Objective::kSpan:
      return MeasureBubbles(*timeline).span_ns;
    case search::Objective::kPeriod:
      return SteadyStepsOf(lowered, *timeline)->period_ns;
  }
  return search::kNoLimit;
}

// By rank, the time of its stages' updates.
std::vector<int64_t> UpdatesOf(const CostModel& costs, const search::Problem& problem) {
  std::vector<int64_t> updates(static_cast<size_t>(problem.ranks), 0);
  for (size_t s = 0; s < costs.update.size(); ++s) {
    updates[static_cast<size_t>(problem.stages[s].rank)] += costs.update[s];
  }
  return updates;
}

// The draws of the goal for every action of the problem, as WithNoise draws them; and the updates
// behind a step.
search::Draws DrawsOf(const SearchGoal& goal, const CostModel& costs,
                      const search::Problem& problem) {
  search::Draws draws;
  if (goal.objective == search::Objective::kPeriod) {
    draws.steps = kPeriodSteps;
    draws.update = UpdatesOf(costs, problem);
  }
  if (goal.draws == 0) return draws;
  draws.count = goal.draws;
  Plan plan;
  for (int s = 0; s < problem.stage_count(); ++s) {
    for (const ActionKind kind : search::kLetterKinds) {
      for (int m = 0; m < problem.stages[static_cast<size_t>(s)].microbatches; ++m) {
        plan.actions.push_back({.kind = kind, .stage = StageId(s), .microbatch = MicrobatchId(m)});
      }
    }
  }
  const auto count = static_cast<size_t>(goal.draws);
  draws.factors.resize(plan.actions.size() * count);
  for (size_t k = 0; k < count; ++k) {
    const CostModel drawn = WithNoise(plan, costs, SeedOfDraw({}, static_cast<int>(k)));
    for (size_t i = 0; i < plan.actions.size(); ++i) {
      draws.factors[i * count + k] = drawn.noise.factors[i];
    }
  }
  return draws;
}

}  // namespace

const char* NameOf(Expect expect) { return expect == Expect::kMean ? "mean" : "worst"; }

bool SearchGoal::IsBeyondSearch(const CostModel& costs) const {
  return draws > 0 || objective == search::Objective::kPeriod || HasFurtherWaits(costs);
}

int64_t ValueOfDraws(const std::vector<int64_t>& values, Expect expect) {
  const int64_t worst = *std::max_element(values.begin(), values.end());
  if (expect == Expect::kWorst || worst >= search::kNoLimit) return worst;
  const auto count = static_cast<int64_t>(values.size());
  return (std::accumulate(values.begin(), values.end(), int64_t{0}) + count / 2) / count;
}

std::vector<int64_t> SimulatedValues(const Plan& plan, const CostModel& costs,
                                     const SearchGoal& goal, const Stop* stop) {
  const Plan steps = PlanOfGoal(plan, goal);
  const CostModel* priced = &costs;
  std::optional<CostModel> of_groups;
  if (!costs.parts.empty()) {
    PriceGroups(steps, &of_groups.emplace(costs));
    priced = &*of_groups;
  }
  const Plan lowered = LoweredPlan(steps, CommLayout::kEdge, costs.collectives);
  const Wiring wiring = WiringOf(lowered, CommLayout::kEdge, costs.receive_buffers);
  if (goal.draws == 0) return {SimulatedOnce(lowered, wiring, *priced, goal)};
  std::vector<int64_t> values;
  for (int k = 0; k < goal.draws; ++k) {
    if (IsWished(stop)) return {search::kNoLimit};
    values.push_back(
        SimulatedOnce(lowered, wiring, WithNoise(lowered, *priced, SeedOfDraw({}, k)), goal));
  }
  return values;
}

int64_t SimulatedValue(const Plan& plan, const CostModel& costs, const SearchGoal& goal) {
  return ValueOfDraws(SimulatedValues(plan, costs, goal), goal.expect);
}

Plan PlanOfGoal(const Plan& plan, const SearchGoal& goal) {
  return goal.objective == search::Objective::kPeriod ? RepeatSteps(plan, kPeriodSteps) : plan;
}

absl::StatusOr<CostModel> CostsOfGoal(const StepCosts& costs, const Plan& plan,
                                      const SearchGoal& goal, const std::string& jitter) {
  SL_ASSIGN_OR_RETURN(CostModel model, ResolveCosts(costs, PlanOfGoal(plan, goal)));
  if (goal.draws > 0) SL_RETURN_IF_ERROR(SetJitter(jitter, &model));
  return model;
}

TrueValue::TrueValue(const SearchGoal& goal, const Plan& stages, CostModel costs,
                     const search::Problem& problem)
    : goal_(goal),
      stages_(stages),
      costs_(std::move(costs)),
      problem_(problem),
      drawn_(problem, DrawsOf(goal, costs_, problem)),
      is_simulated_(HasFurtherWaits(costs_)) {
  stages_.actions.clear();  // PlanOf leaves them out anyway
  stages_.iterations.clear();
}

int64_t TrueValue::Of(const search::Words& words) {
  if (is_simulated_) {
    const Stop* const stop = std::exchange(is_first_, false) ? nullptr : problem_.stop;
    if (IsWished(stop)) return search::kNoLimit;
    return ValueOfDraws(SimulatedValues(search::PlanOf(stages_, words), costs_, goal_, stop),
                        goal_.expect);
  }
  if (!drawn_.Run(words)) return search::kNoLimit;
  return goal_.objective == search::Objective::kPeriod
             ? drawn_.Period()
             : ValueOfDraws(drawn_.Makespans(), goal_.expect);
}

int64_t TrueValue::BoundFrom(int64_t bound, bool others, const Stop* stop) const {
  if (goal_.objective == search::Objective::kPeriod) {
    // Every rank does its updates beside its step.
    const std::vector<int64_t> updates = UpdatesOf(costs_, problem_);
    bound += *std::min_element(updates.begin(), updates.end());
    for (int r = 0; r < problem_.ranks && !others; ++r) {
      bound = std::max(bound, search::LeastWork(problem_, r) + updates[static_cast<size_t>(r)]);
    }
    return bound;
  }
  if (goal_.draws == 0) return bound;
  // The mean of a maximum is no less than the maximum of means (Jensen), and a draw's times are
  // whole nanoseconds.
  const double least = static_cast<double>(bound) * drawn_.LeastMean() -
                       0.5 * static_cast<double>(search::LettersOf(problem_));
  bound = std::max<int64_t>(0, static_cast<int64_t>(least));
  if (others || !problem_.whole_pairs.empty() || !problem_.input_pairs.empty()) return bound;
  const auto look_at = [&](search::Problem problem) {
    problem.stop = stop;
    bound = std::max(bound, search::LowerBoundOf(problem));
  };
  look_at(drawn_.OfMeans());
  for (int k = 0; k < goal_.draws && goal_.expect == Expect::kWorst; ++k) {
    if (!IsWished(stop)) look_at(drawn_.OfDraw(k));
  }
  return bound;
}

}  // namespace stringline
