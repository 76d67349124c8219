// Random plans, for tests of properties that every plan has.
#pragma once

#include <random>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

using RankLists = std::vector<std::vector<Action>>;

size_t Below(std::mt19937_64& random, size_t n);  // 0 .. n - 1

Action MakeAction(ActionKind kind, int stage, int microbatch);

// A plan without actions: the ranks of the stages of each pipe.
Plan EmptyPlan(const std::vector<std::vector<int>>& pipes, int microbatches);

// Puts the lists into the plan; a part joins the part before only if both are of the same sort.
void PutLists(const RankLists& lists, Plan* plan);

// Edges of at least two stages that are no chain, without a cycle.
std::vector<Edge> RandomEdges(int stages, std::mt19937_64& random);

// Stages that microbatches of the plan's graph may leave out; often none.
std::vector<Skip> RandomSkips(const Plan& plan, std::mt19937_64& random);

// A right plan, not lowered: computations in an order in which each can follow the last, some of
// them in groups. `edges`: of stages that are no chain, or that
// some microbatches leave out.
Plan RandomRightPlan(std::mt19937_64& random, int most_stages, int most_microbatches,
                     bool copies = false, bool edges = false);

}  // namespace stringline
