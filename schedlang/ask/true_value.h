// The value that a question is about, where it is another than the optimiser's count of time: what
// the simulator says of an order, with collectives, receive buffers and shared links; its mean or
// its worst over draws of its times; and the period of steps that follow each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/base/stop.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/drawn_times.h"
#include "schedlang/search/problem.h"

namespace stringline {

// The steps of which the period is that of any but the first and the last.
inline constexpr int kPeriodSteps = 8;

// The draw that counts, of several draws of a step's times.
enum class Expect : uint8_t { kMean, kWorst };
const char* NameOf(Expect expect);  // "mean"

struct SearchGoal {
  search::Objective objective = search::Objective::kMakespan;
  int draws = 0;  // those of StepsUnderJitter (jitter.h); 0: times are as the costs say
  Expect expect = Expect::kMean;

  // True if the optimiser's count of time is not the value at these costs.
  bool IsBeyondSearch(const CostModel& costs) const;
};

// The value of a plan that is not lowered, simulated at these costs, which are for so many steps of
// it (PlanOfGoal); kNoLimit if it never ends.
int64_t SimulatedValue(const Plan& plan, const CostModel& costs, const SearchGoal& goal);
// The time of the step in each draw; the time of a period alone. A single kNoLimit once `stop`
// (null: never) is wished.
std::vector<int64_t> SimulatedValues(const Plan& plan, const CostModel& costs,
                                     const SearchGoal& goal, const Stop* stop = nullptr);
// The mean, rounded, or the worst.
int64_t ValueOfDraws(const std::vector<int64_t>& values, Expect expect);

// The plan that is simulated for the goal: of a period so many steps of it.
Plan PlanOfGoal(const Plan& plan, const SearchGoal& goal);
// Costs of that. `jitter` is in place of that of the costs, if it is given. Errors: those of
// ResolveCosts; draws without any jitter.
absl::StatusOr<CostModel> CostsOfGoal(const StepCosts& costs, const Plan& plan,
                                      const SearchGoal& goal, const std::string& jitter);

// The value of the orders of a placement.
class TrueValue {
 public:
  // `costs` are of CostsOfGoal, with jitter if there are draws; `problem` has the same stages.
  TrueValue(const SearchGoal& goal, const Plan& stages, CostModel costs,
            const search::Problem& problem);

  // kNoLimit for words that never end, and, but for the first, once the problem's stop is wished.
  int64_t Of(const search::Words& words);
  // A lower bound on the value of all orders, where `bound` is one by the problem's count of time.
  // The stages may have other costs than these, if there are `others`. After a wish to stop it may
  // be less than without.
  int64_t BoundFrom(int64_t bound, bool others, const Stop* stop) const;
  // True if a lower bound by the problem's count of time is one for values.
  bool HasBoundOfProblem() const {
    return goal_.draws == 0 && goal_.objective == search::Objective::kMakespan;
  }
  // True if values come from the simulator, which takes far longer than an evaluation.
  bool IsSimulated() const { return is_simulated_; }
  const SearchGoal& goal() const { return goal_; }

 private:
  SearchGoal goal_;
  Plan stages_;
  CostModel costs_;
  search::Problem problem_;
  search::DrawnTimes drawn_;
  bool is_simulated_;     // else drawn_ has all times
  bool is_first_ = true;  // of the values
};

}  // namespace stringline
