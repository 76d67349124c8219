// The period of a step: the duration of a further step if many follow each other and every rank
// begins the next right after the end of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The longest time of a rank for a step, over the third and fourth steps; the first two fill the
// pipeline. Nothing if gathers or reductions take time: those of a step wait for those of another,
// and no plan holds this dependency. Cost: four simulations.
std::optional<int64_t> PeriodOf(const Plan& lowered, const CostModel& costs, CommLayout layout);

}  // namespace stringline
