// Inserts what a schedule does with the parameters of sharded stages (FSDP, ZeRO-3):
//
//   UNSHARD       before a stage's next action, and early: while up to `resident` stages of the
//                 rank fit, those that come next are gathered ahead of their use
//   RESHARD       once a stage is no longer among the next `resident` ones; all at the end
//   REDUCE_GRAD   behind the last weight gradient (B or W) of a stage; with pipes, whose reductions
//                 need one order on all ranks, Lower does it (ReduceGradients)
//
// The rule is that of torch.distributed.pipelining, whose default is three stages. All parts of a
// group count together, so a pair may hold one stage more.
#pragma once

#include "schedlang/plan.h"

namespace stringline {

// A plan that holds collectives already is returned as it is. `resident` is at least 1; an action
// that has more parts on different stages holds all of them. An inserted action has the place of
// the computation it stands beside. Cost: linear in actions, times `resident`.
Plan AddCollectives(const Plan& plan, int resident = 3);

}  // namespace stringline
