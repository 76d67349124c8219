// Costs with small changes: what-if costs, slow ranks, and durations drawn anew for every step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// A single change of the costs, and its name: "F 10% faster".
struct Variation {
  std::string name;
  CostModel costs;
};

// Every kind of computation 10 % faster; messages at half the latency, and at twice the bandwidth;
// collectives on parameters 10 % faster, and parts on the network; and the longest computing rank
// 10 % faster. Only for actions in the plan with costs above 0.
std::vector<Variation> WhatIf(const Plan& plan, const CostModel& costs);

// All computations of the rank take `share` longer (0.1: a tenth).
CostModel WithSlowRank(const Plan& plan, CostModel costs, RankId rank, double share);

// Every computation's duration drawn from a normal distribution around its cost, with the standard
// deviation costs.jitter, and at least half the cost. The same seed draws the same durations.
CostModel WithNoise(const Plan& plan, CostModel costs, uint64_t seed);

}  // namespace stringline
