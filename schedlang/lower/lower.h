// Inserts the sends and receives implied by a plan's actions.
//
// A message is needed exactly between neighbouring stages on different ranks. A send follows the
// group that produces its value at once. A receive stands as late as possible: right before its
// consumer's group, or before the call that must come after it on the same communicator. A plan
// lowered for a layout hangs in that layout only if its computations themselves form a cycle of
// dependencies (message_order.h has the proof).
//
// An F beside a B or an I stays a group of computations, and so does a group that the schedule lets
// overlap (Plan::overlaps): their parts have an order (group_order.h). The actions of any other
// group run in a row, each with receives and sends of its own.
//
// The gradients of replicas (Plan::pipes) are reduced, if the plan has no reductions of its own.
#pragma once

#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Takes groups of computations that do not overlap apart. A group whose actions wait for each
// other stays as written: the schedule says that none of them starts before the others end.
void PutInARow(Plan* plan);

// `plan` must not be lowered yet, and may be wrong: a message without a producer or a consumer is
// left out, and Check reports the missing action.
Plan Lower(Plan plan, CommLayout layout = CommLayout::kEdge);

}  // namespace stringline
