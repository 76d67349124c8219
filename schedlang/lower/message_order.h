// Puts the messages of a lowered plan into an order in which no communicator can hang.
//
// In all layouts but `edge` messages of several directions share a queue, so both sides must list
// them alike. The order taken is that in which they leave in an ideal run: unit costs, free
// messages, a queue for every direction. In every queue the calls stand in that order; a send
// stands as early as it can (behind the group that gives it), a receive as late as it can: before
// the group that needs it, or before the next call of its queue, which left later. So no receive
// stands before a send that is ready first.
//
// In `updown` the two ends of a communicator see other messages of it, so that its order alone is
// not enough: a rank lists all its messages in one order, as in `shared`.
//
// Why nothing hangs: of the messages that have not gone, take the one that leaves first in the
// ideal run. What it is made from, and all calls before it in both its queues, are done. A
// computation listed before its receive can wait only for a message that leaves later, whose own
// call stands behind the receive in the same queue, and so behind the receive in the list.
#pragma once

#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"

namespace stringline {

// `lowered` is lowered for `edge`. A plan that cannot end stays as it is.
Plan OrderMessages(const Plan& lowered, CommLayout layout);

// Sums the gradients of stages that several ranks hold: the plan with a REDUCE_GRAD for every
// stage, each as early as the one order allows in which all ranks do them. Replicas are the k-th
// stages of all pipes, and the same stage in every copy of the pipeline. Plans with reductions of
// their own, or that cannot end, stay as they are.
//
// Where parameters are gathered, too, a rank lists a reduction when all replicas are done in the
// ideal run (unit costs, free messages): what it gathers before, others may wait for. So nothing
// that is listed behind a reduction, and waits with it, is needed for it to start.
Plan ReduceGradients(const Plan& lowered);

}  // namespace stringline
