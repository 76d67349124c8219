// Inserts the sends and receives that a plan's actions imply.
//
// A message crosses wherever a stage and its neighbour live on two ranks, and nowhere else. A send
// follows the group that gives its value at once. A receive stands as late as it can: right before
// the group that needs it, or before the call that must come after it on the same communicator. A
// plan lowered for a layout hangs in that layout only if its computations themselves wait for each
// other in a circle (message_order.h says why).
//
// The gradients of replicas (Plan::pipes) are reduced, if the plan has no reductions of its own.
#pragma once

#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"

namespace stringline {

// `plan` must not be lowered yet. It need not be correct: a message without a producer or a
// consumer is left out, and Check says what is missing.
Plan Lower(const Plan& plan, CommLayout layout = CommLayout::kEdge);

}  // namespace stringline
