// Reductions of replicas, which ranks perform together (plan/links.h): their cost, and cycles among
// them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// A reduction ends for all members at once, so its cost is the slowest member's.
int64_t ReductionNs(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                    uint32_t meeting);

// `waiting`, by rank: the reduction at which the rank waits for others; kNoAction: none. Describes
// a cycle of waiting ranks in the words of the rule `collectives`, or returns "".
std::string ReductionCycle(const Plan& plan, const Wiring& wiring,
                           absl::Span<const uint32_t> waiting);

}  // namespace stringline
