// Times are 64-bit counts of nanoseconds. Costs whose sum does not fit would give a timeline of
// nonsense, so they are refused before anything is computed with them.
#pragma once

#include "absl/status/status.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// A step may be no longer than 146 years if all its actions ran in a row. A search also compares
// successive steps with a cost for "no order at all", and leaves room for both.
inline constexpr int64_t kMostStepNs = int64_t{1} << 62;
inline constexpr int64_t kMostSearchedNs = int64_t{1} << 58;

// InvalidArgument where F, B, I, W, messages and collectives of all microbatches, whatever the plan
// performs of them, take longer than `most_ns` together; names the largest cost.
absl::Status CheckStepLength(const Plan& plan, const CostModel& costs,
                             int64_t most_ns = kMostStepNs);

}  // namespace stringline
