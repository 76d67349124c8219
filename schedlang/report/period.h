// The period of a step: the duration of a further step if many follow each other and every rank
// begins the next right after the end of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// The longest time of a rank for a step, over the third and fourth steps; the first two fill the
// pipeline. Nothing if gathers or reductions take time: those of a step wait for those of another,
// and a plan of one step holds no such dependency; nor for a plan of several steps, which has
// SteadySteps. Cost: four simulations.
std::optional<int64_t> PeriodOf(const Plan& lowered, const CostModel& costs, CommLayout layout);

// Steps behind the first one, as a plan of several steps performs them. A step of a rank ends with
// the last of its updates; with three steps or more the last one, behind which no other follows, is
// left out.
struct SteadySteps {
  int64_t period_ns = 0;  // the longest time of a rank for one of these steps, on average
  double bubble = 0;      // the share of these times in which ranks do not compute
};

// Nothing for a plan of one step. Cost: linear in events.
std::optional<SteadySteps> SteadyStepsOf(const Plan& plan, const Timeline& timeline);

}  // namespace stringline
