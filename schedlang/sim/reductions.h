// Reductions of replicas, which ranks perform together (wiring.h): what one takes, and which of
// them wait for each other.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/wiring.h"

namespace stringline {

// A reduction ends for all members at once, so it takes what the slowest of them needs.
int64_t ReductionNs(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                    uint32_t meeting);

// `waiting`, by rank: the reduction at which it waits for others; kNoAction: at none. In the words
// of the rule `collectives` who of them wait in a circle; "" if none do.
std::string ReductionCircle(const Plan& plan, const Wiring& wiring,
                            absl::Span<const uint32_t> waiting);

}  // namespace stringline
