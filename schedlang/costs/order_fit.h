// A greedy order, or a searched one, is made for costs, and the plan carries them (OrderCosts).
// Simulated at other costs the step says little about how good the order is. This says which of
// the two a step is.
#pragma once

#include <optional>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

enum class OrderFit : uint8_t {
  kNoCosts,  // the order was made for no costs
  kOwn,      // the step is simulated at the costs for which the order was made
  kAlike,    // at others in the same proportions
  kChanged,  // at those costs, with messages or ranks as the user gave them
  kOther,    // at others
};

// Compares the times of all computations and messages of the plan, up to one factor. Cost: linear
// in actions.
OrderFit OrderFitOf(const Plan& plan, const CostModel& costs);

// The times of actions and messages as costs of an order, in the smallest whole numbers, without
// the F that stages do again. Nothing if an order cannot have them: messages that differ, replicas
// that differ, numbers that are too large.
std::optional<OrderCosts> OrderCostsFrom(const Plan& plan, const CostModel& costs);

}  // namespace stringline
