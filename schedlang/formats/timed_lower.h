// Sends and receives for a runtime that issues every action in the order of one list, whatever its
// messages share: one communicator for all ranks, one for two, or one for each direction.
//
// The plan's computations are simulated with free links. Messages then have an order, that in which
// they are ready, and every rank names its sends and receives in this order: so the first one that
// has not gone can always go, and nothing hangs. A send stands behind the group that gives it. A
// receive stands before the group during which its message is ready: early enough that it never
// waits for the receive, and as late as that allows, so that few messages are behind it.
#pragma once

#include <optional>

#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

// `plan` is not lowered and may hold collectives; nothing when it never ends. Costs of 0 count as
// 1 ns here.
std::optional<Plan> LowerByTime(const Plan& plan, const CostModel& costs);

}  // namespace stringline
