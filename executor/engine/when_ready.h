// Rewrites an observed step as event timestamps on a GPU's streams would show it.
//
// A group starts when its rank's previous group has ended and its messages and parameters have
// arrived, that is when only the machine still delays it, and ends with its last part. If ranks
// share processors, the wait for a processor counts as part of the action. A message lasts from the
// moment when its producer's group has ended and earlier calls have left the queues of both its
// ends; a collective from the end of its dependencies (links.h), a reduction of replicas on all
// ranks alike.
//
// A plan with a window is replayed as the plan that was performed: its lists are in the order of
// their observed starts.
//
// So every start follows from the plan's rules. The observed times are kept beside them
// (Timeline::observed), and ReconstructionOf (schedlang/plan/timeline.h) measures the difference.
#pragma once

#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// `observed.parts` of a group arrive in the order in which they were enqueued (Recorder::Observed).
Timeline WhenReady(const Plan& lowered, const Wiring& wiring, Timeline observed);

}  // namespace stringline
