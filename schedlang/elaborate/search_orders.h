// The orders that a search block asks for.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/plan.h"

namespace stringline {

// Fills the actions of the plan, whose stages and microbatches are known, and what it was searched
// for. False after a finding: a limit that lets no order through, more than a search can take.
bool SearchOrders(const OrderRules& rules, const ElaborateLimits& limits, Plan* plan,
                  Diagnostics* diagnostics);

}  // namespace stringline
