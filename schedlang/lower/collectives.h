// Inserts the collectives of copies of a pipeline that share parameters and gradients:
//
//   UNSHARD       before a stage's next action, and early: up to `resident` stages of the rank, in
//                 the order of their next use, are gathered at once
//   RESHARD       once a stage is no longer among the next `resident` ones, and before its UPDATE;
//                 all at the end
//   REDUCE_GRAD   behind the last weight gradient (B or W) of a stage in a step; with pipes, whose
//   reductions
//                 need one order on all ranks, by Lower (ReduceGradients)
//
// torch.distributed.pipelining has the same rule, with a default of three stages. All parts of a
// group count together, so a pair may hold one stage more.
//
// Copies perform the same plan, so the ranks of a group list their collectives in the same order,
// and a proof for one copy holds for all.
#pragma once

#include "schedlang/plan/plan.h"
#include "schedlang/plan/sharding.h"

namespace stringline {

// Adds the kinds of the choice that the plan lacks: a plan with any gather or reduction is taken to
// list them for all its stages. An action with parts on several stages holds all of them. An
// inserted action has the place of its neighbouring computation. Cost: linear in actions, times
// `resident`.
Plan AddCollectives(Plan plan, const CollectiveChoice& choice);

// As torch.distributed.pipelining adds them: all kinds, to a plan without collectives; any other
// plan is returned unchanged.
Plan AddCollectives(Plan plan, int resident = 3);

}  // namespace stringline
