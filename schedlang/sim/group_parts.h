// The times of the parts of computations simulated by parts: every group whose parts overlap
// (overlapped.h), and every other computation of a kind with parts, part after part. Parts that
// wait for buckets start with them (gathered_parts.h). For plans in which some stages have layers.
#pragma once

#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// Appends to timeline->parts, except for parts of no length. Parts are stretched evenly to an event
// of another length (a slow rank, jitter, a separate cost). Cost: linear in parts.
void AddParts(const Plan& lowered, const Wiring& wiring, const CostModel& costs,
              Timeline* timeline);

}  // namespace stringline
