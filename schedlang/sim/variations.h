// Costs that differ a little from the given ones: what would be if, slow ranks, and durations that
// are not the same twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

// One thing changed, and what it is called: "F 10% faster".
struct Variation {
  std::string name;
  CostModel costs;
};

// Every kind of computation 10 % faster, half the latency, twice the bandwidth, collectives 10 %
// faster, and the rank that computes longest 10 % faster; only what the plan performs and what is
// not 0.
std::vector<Variation> WhatIf(const Plan& plan, const CostModel& costs);

// All computations of the rank take `share` longer (0.1: a tenth).
CostModel WithSlowRank(const Plan& plan, CostModel costs, RankId rank, double share);

// Every computation's duration drawn from a normal distribution around what it was, with the
// standard deviation costs.jitter, and at least half of it. The same seed draws the same.
CostModel WithNoise(const Plan& plan, CostModel costs, uint64_t seed);

}  // namespace stringline
