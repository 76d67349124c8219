// How short a step with these actions, places and costs could be at best, whatever their order.
//
// For every rank three times that cannot overlap:
//   head   before its first forward can start: the forwards of the stages before it, and hops
//   work   what it computes itself, groups as the plan has them
//   tail   after its last computation: the backwards of the stages before it, and hops; nothing
//          where weight gradients may come last
// and, while it waits for its first gradient, a rank that may hold K activations has nothing to do
// but K forwards: the rest of that round trip is idle. The bound is the largest sum over the ranks.
// (Zero Bubble Pipeline Parallelism, Qi et al. 2024; for K the plan's own peak is taken, so the
// bound says: with this memory.)
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

struct RankBound {
  int64_t head_ns = 0;
  int64_t work_ns = 0;
  int64_t idle_ns = 0;  // of the first round trip, with the plan's own memory
  int64_t tail_ns = 0;
  int64_t sum_ns() const { return head_ns + work_ns + idle_ns + tail_ns; }
};

struct LowerBound {
  int64_t makespan_ns = 0;
  RankId rank;  // whose sum that is
  std::vector<RankBound> ranks;
};

LowerBound LowerBoundOf(const Plan& plan, const CostModel& costs);

}  // namespace stringline
