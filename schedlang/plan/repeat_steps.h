// Several steps of training in one plan: each rank performs the order of a step again and again,
// and begins the next one where its own updates are done, whatever other ranks do.
#pragma once

#include "schedlang/plan/plan.h"

namespace stringline {

// The plan of a step, so many times; microbatches are numbered on. A plan without UPDATE gets those
// of all stages of a rank behind each of its steps, in the order in which the next step needs them.
// The plan has one step and is not lowered; one step stays as it is. Cost: linear in actions.
Plan RepeatSteps(const Plan& plan, int steps);

// The same of a plan of one step, lowered or not, without adding UPDATEs.
Plan RepeatActions(const Plan& plan, int steps);

// Multiplies the microbatches of the plan and of its pipes, counted as a schedule counts them, by
// its steps and slices.
void CountStepsAndSlices(Plan* plan);

}  // namespace stringline
