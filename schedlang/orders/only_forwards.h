// The forwards of a training schedule as a schedule of their own, for evaluations of the model that
// it trains: they need the same stages on the same ranks.
#pragma once

#include "schedlang/plan/plan.h"

namespace stringline {

// A plan without backwards (Plan::forward_only) of the forwards of the plan's first step, each rank
// in the order of its list, one action at a time. They depend on each other alone, so a plan that
// ends stays one that ends. It has the stages, pipes, chunks and slices of `plan`, which may be
// lowered and has no actions of its own; the result is not lowered.
Plan OnlyForwards(const Plan& plan);

}  // namespace stringline
