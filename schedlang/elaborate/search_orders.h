// The orders that a search block asks for, with places and layers where these are free.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/plan.h"

namespace stringline {

// Fills the actions of the plan, whose microbatches are known, and what it was searched for; its
// stages and its split, if they were not. `split` may be null. False after a finding: a limit that
// lets no order through, more than a search can take, too few layers.
bool SearchOrders(const OrderRules& rules, const SplitStep* split, const ElaborateLimits& limits,
                  Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
