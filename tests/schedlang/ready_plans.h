// Random plans with a window, for tests of ready order.
#pragma once

#include <random>

#include "schedlang/plan/plan.h"

namespace stringline {

// A plan of up to 3 ranks, 4 stages anywhere and 4 microbatches in any order, with about as many
// actions at most, whose lists are a run of all ranks; with B, or with I and W, by stage. `damage`:
// then two actions of a rank are swapped. Not lowered.
Plan RandomReadyPlan(std::mt19937_64& random, int most_actions, bool damage);

}  // namespace stringline
