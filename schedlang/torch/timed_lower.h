// Sends and receives for a runtime that issues every action in list order, whatever its messages
// share: a communicator for all ranks, for each pair, or for each direction.
//
// The plan's computations are simulated with free links. This orders messages by the times at which
// they are ready, and every rank lists its sends and receives in this order: so the first message
// that has not gone can always go, and nothing hangs. A send stands behind its producer's group. A
// receive stands before the group during which its message becomes ready: early enough that the
// message never waits for the receive, and otherwise as late as possible, so that few messages are
// behind it.
#pragma once

#include <optional>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// `plan` is not lowered and may hold collectives; nothing if it never ends. Costs of 0 count as 1
// ns here.
std::optional<Plan> LowerByTime(const Plan& plan, const CostModel& costs);

}  // namespace stringline
