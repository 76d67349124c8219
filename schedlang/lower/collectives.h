// Inserts what copies of a pipeline do with the parameters and gradients that they share:
//
//   UNSHARD       before a stage's next action, and early: while up to `resident` stages of the
//                 rank fit, those that come next are gathered ahead of their use
//   RESHARD       once a stage is no longer among the next `resident` ones; all at the end
//   REDUCE_GRAD   behind the last weight gradient (B or W) of a stage; with pipes, whose reductions
//                 need one order on all ranks, Lower does it (ReduceGradients)
//
// The rule is that of torch.distributed.pipelining, whose default is three stages. All parts of a
// group count together, so a pair may hold one stage more.
//
// Copies perform the same plan. So the ranks of a group list what they do together in one order,
// and what is proven of one copy is proven of all.
#pragma once

#include "schedlang/plan.h"
#include "schedlang/sharding.h"

namespace stringline {

// The plan with those of the choice that it does not say itself: one that gathers or reduces
// anywhere says so of all its stages. `resident` is at least 1; an action that has more parts on
// different stages holds all of them. An inserted action has the place of the computation it stands
// beside. Cost: linear in actions, times `resident`.
Plan AddCollectives(const Plan& plan, const CollectiveChoice& choice);

// As torch.distributed.pipelining adds them: all of them, to a plan that holds none; one that holds
// any is returned as it is.
Plan AddCollectives(const Plan& plan, int resident = 3);

}  // namespace stringline
