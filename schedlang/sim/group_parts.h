// When the parts of computations run that were simulated by their parts: every F beside a B or I
// that overlapped.h priced, and every other computation of a kind that has parts, one part after
// the other; of a plan some of whose stages have layers.
#pragma once

#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"

namespace stringline {

// Appends to timeline->parts, but for parts that take no time. Where an event is longer or shorter
// than its parts (a slow rank, jitter, a cost of its own) they are stretched alike. Cost: linear in
// parts.
void AddParts(const Plan& lowered, const CostModel& costs, Timeline* timeline);

}  // namespace stringline
