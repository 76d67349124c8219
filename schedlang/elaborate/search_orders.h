// The orders found for a search block, with places and layers if these are free.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Fills the actions of the plan, whose microbatches are known, and its search result; also its
// stages and its split, if free. `split` may be null. False after a finding: a limit that allows no
// order, a problem too large for a search, too few layers.
bool SearchOrders(const OrderRules& rules, const SplitStep* split, const ElaborateLimits& limits,
                  Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
