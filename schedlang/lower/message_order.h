// Puts the messages of a lowered plan into an order in which no communicator can hang.
//
// In all layouts but `edge` messages of several directions share a queue, so both sides must list
// them alike. The order is that of their departures in an ideal run: unit costs, free messages, a
// queue for every direction. In every queue the calls stand in that order; a send stands as early
// as possible (behind the group that produces its value), a receive as late as possible: before its
// consumer's group, or before the next call of its queue, which left later. So no receive stands
// before a send that is ready first.
//
// In `updown` the two ends of a communicator see different messages of it, so its order alone is
// not enough: a rank lists all its messages in one order, as in `shared`.
//
// Proof that nothing hangs: of the messages that have not gone, take the first to leave in the
// ideal run. Its producer, and all calls before it in both its queues, are done. A computation
// listed before its receive can wait only for a message that leaves later, whose own call stands
// behind the receive in the same queue, and so behind the receive in the list.
#pragma once

#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// `lowered` is lowered for `edge`. A plan without an end is returned unchanged.
Plan OrderMessages(const Plan& lowered, CommLayout layout);

// Sums the gradients of stages that several ranks hold: the plan with a REDUCE_GRAD for every
// stage, each as early as possible in a common order of all ranks. Replicas are the k-th stages of
// all pipes, and the same stage in every copy of the pipeline. Plans with reductions of their own,
// or without an end, are returned unchanged.
//
// If parameters are gathered, too, a rank lists a reduction only when all replicas are done in the
// ideal run (unit costs, free messages), since others may wait for values that depend on its
// earlier gathers. So the start of a reduction needs nothing behind it in any list.
Plan ReduceGradients(const Plan& lowered);

}  // namespace stringline
