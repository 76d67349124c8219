// What was observed of a step, told as event timestamps on a GPU's streams would have it.
//
// A group starts when nothing but the machine keeps it any more, that is when the rank's group
// before it has ended and its messages and parameters are there, and ends with its last part. Where
// ranks share processors, waiting for one is part of what an action takes. A message lasts from the
// moment when the group that gave it has ended and the calls before it have left the queues of both
// its ends; a collective from when what it waits for has ended (wiring.h), a reduction of
// replicas on all ranks alike.
//
// So every start is told by the plan's rules. What was observed is kept beside it
// (Timeline::observed), and ReconstructionOf (schedlang/timeline.h) says how far the one is from
// the other.
#pragma once

#include "schedlang/plan.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/timeline.h"

namespace stringline {

Timeline WhenReady(const Plan& lowered, const Wiring& wiring, Timeline observed);

}  // namespace stringline
