// Groups that meet the buckets of gathers part by part (plan/buckets.h): those with stages that are
// cut into layers, if every computation takes the time of its parts.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// The number of buckets of an UNSHARD that a computation meets one by one; 1: it waits for all.
int64_t BucketsMet(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                   uint32_t unshard);

// True if the group that begins with plan.actions[begin] meets buckets part by part, and some of
// them are not there at its start. The UNSHARDs of `events` are known.
bool WaitsInParts(const Plan& plan, const Wiring& wiring, const CostModel& costs,
                  absl::Span<const Event> events, uint32_t begin, int64_t start_ns);

// The parts of such a group, or of another one that takes the time of its parts, in nanoseconds
// from its start at start_ns; PartTime::of is the place in the group.
std::vector<PartTime> PartsBesideGathers(const Plan& plan, const Wiring& wiring,
                                         const CostModel& costs, absl::Span<const Event> events,
                                         uint32_t begin, int64_t start_ns);

}  // namespace stringline
