// The costs for which a step's order was made, if the step is simulated at other costs.
#pragma once

#include <string>

#include "schedlang/costs/costs.h"
#include "schedlang/costs/order_fit.h"
#include "schedlang/plan/plan.h"
#include "tools/io/json.h"

namespace stringline {

// "own", "alike", "changed", "other", "none".
const char* NameOf(OrderFit fit);

// "at the costs that its order was made for, in ms"; "" for an order without costs of its own, or
// with costs in the same proportions.
std::string OrderNote(OrderFit fit);
// The same with these costs, "its order was made for other costs: F=1 B=2", and the plan's stages
// that recompute at them.
std::string OrderNote(const Plan& plan, const CostModel& costs);

// `recompute`: the plan's stages that recompute at these costs. `ordered_for`, for an order with
// costs of its own: these, and how the step's costs compare.
void AddOrderedFor(const Plan& plan, const CostModel& costs, Json* json);

}  // namespace stringline
