// Plans for "all engines agree": every plan of a small family, and random ones, right and wrong.
//
// The same plans go through the checker, the replay and the strict executor; each must say yes to
// the same ones.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "schedlang/plan/plan.h"

namespace stringline {

// Calls `visit` with every lowered plan of the family: all orders of the actions of a few tiny
// shapes (with and without groups, lowered by us and by every permutation), and all short lists
// over one stage's actions. Returns the number of plans.
int64_t ForEachSmallPlan(const std::function<void(const Plan& lowered)>& visit);

// A lowered plan of up to 4 ranks, 6 stages and 4 microbatches. Every plan starts right; about two
// of three are then damaged: two actions swapped, an action dropped, doubled or moved, a group made
// or broken, before or after lowering.
// `with_rows`: with own actions of every sort (plan/rows.h). `slices`: of each microbatch, of which
// there are then up to 2. `forward_only`: without backwards. `with_edges`: of stages that are no
// chain, in half of which microbatches leave some out.
Plan RandomPlan(std::mt19937_64& random, bool with_rows = false, int slices = 1,
                bool forward_only = false, bool with_edges = false);

}  // namespace stringline
