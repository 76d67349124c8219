// Plan + costs -> Timeline, in virtual time. Pure: no clock, no randomness.
//
// The model: a rank performs its compute actions in order, one group at a time. A message leaves
// when the group that gives it ends, and arrives `hop` later; links are not shared. (The model of
// the Zero Bubble papers' scripts.)
#pragma once

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"

namespace stringline {

// `lowered` is a lowered plan that passes Check; FailedPrecondition for one that cannot end.
// A send's event lasts from the moment its value exists until it arrives; a receive's is the same.
absl::StatusOr<Timeline> Simulate(const Plan& lowered, const CostModel& costs);

}  // namespace stringline
