// The time that a step loses because its microbatches are unequal: the same plan simulated with
// equal ones, and with the same ones in the order of their length.
#pragma once

#include <cstdint>
#include <optional>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Makespans.
struct MicrobatchBalance {
  int64_t equal_ns = 0;  // with the same work in equal microbatches
  int64_t longest_first_ns = 0;
  int64_t shortest_first_ns = 0;
};

// Nothing where microbatches are alike. The plan, which is lowered, ends.
std::optional<MicrobatchBalance> BalanceOf(const Plan& lowered, const Wiring& wiring,
                                           const CostModel& costs);

}  // namespace stringline
