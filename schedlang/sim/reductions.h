// Reductions of replicas, which ranks perform together (plan/links.h): their cost, and cycles among
// them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// A reduction ends for all members at once, so its cost is the slowest member's.
int64_t ReductionNs(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                    uint32_t meeting);

// The moments of a REDUCE_GRAD if no other collective or rank delays it: its first bucket is there,
// and its end. The computation listed before it is known.
struct ReductionTimes {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};
ReductionTimes ReductionInside(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                               absl::Span<const Event> events, uint32_t reduce, int64_t cost_ns);

// `waiting`, by rank: the reduction at which the rank waits for others; kNoAction: none. Describes
// a cycle of waiting ranks in the words of the rule `collectives`, or returns "".
std::string ReductionCycle(const Plan& plan, const Wiring& wiring,
                           absl::Span<const uint32_t> waiting);

}  // namespace stringline
