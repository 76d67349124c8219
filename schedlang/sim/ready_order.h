// A plan in ready order (plan/ready.h), performed in virtual time.
//
// The order that happens at given costs is a plan like any other, so a timeline, a report or a
// picture of ready order is that of its performance: simulated (simulate.h), it takes the same time
// to the nanosecond. Messages share the channels of the layout `edge`, in the order in which they
// are made, and nothing waits for room for them.
#pragma once

#include "absl/status/status.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// InvalidArgument for costs that ready order does not know, by name: bounded receive buffers, links
// shared by several messages, and collectives.
absl::Status CheckReadyCosts(const CostModel& costs);

// The lists as performed at these costs, which pass CheckReadyCosts, without window and messages.
// `plan` has a window, passes Check, and may be lowered; factors of costs.noise are those of its
// actions. At one moment everything that ends or arrives comes first, then free ranks choose. Cost:
// linear in actions, times the window and a logarithm.
Plan PerformedAt(const Plan& plan, const CostModel& costs);

}  // namespace stringline
