// Costs with small changes: what-if costs, slow ranks and links, and durations drawn anew for every
// step.
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

// Messages over the link take `share` longer: their latency and their transfer. Error: no message
// of the plan goes over it, or they take no time; or the schedule has copies to other ranks, whose
// links are not known.
absl::Status CheckSlowLink(const Plan& plan, const CostModel& costs, const RankLink& link);
CostModel WithSlowLink(const Plan& plan, CostModel costs, const RankLink& link, double share);

// Every computation's duration drawn at random: its cost, times a factor of its own and one of its
// microbatch, of normal distributions around 1 with the standard deviations costs.jitter and
// costs.microbatch_jitter, each at least 0.5. A seed draws the same factor for the same action of
// the same microbatch, whatever the order of the plan.
CostModel WithNoise(const Plan& plan, CostModel costs, uint64_t seed);

}  // namespace stringline
