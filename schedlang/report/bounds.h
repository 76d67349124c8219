// A lower bound of the length of a step with these actions, places and costs, in any order.
//
// For every rank three times that cannot overlap:
//   head   before its first forward can start: the forwards of earlier stages, and hops
//   work   its own computations, in the plan's groups
//   tail   after its last computation: the backwards of earlier stages, and hops; nothing
//          where weight gradients may come last
// and, while it waits for its first gradient, a rank that may hold K activations has nothing to do
// but K forwards: the rest of the round trip is idle. The bound is the largest sum over the ranks.
// (Zero Bubble Pipeline Parallelism, Qi et al. 2024; for K the plan's own peak is taken, so the
// bound says: with this memory.)
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct RankBound {
  int64_t head_ns = 0;
  int64_t work_ns = 0;
  int64_t idle_ns = 0;  // in the first round trip, with the plan's own memory
  int64_t tail_ns = 0;
  int64_t sum_ns() const { return head_ns + work_ns + idle_ns + tail_ns; }
};

struct LowerBound {
  int64_t makespan_ns = 0;
  RankId rank;  // the rank with this sum
  std::vector<RankBound> ranks;
  bool forward_only = false;  // a rank's tail is then of the stages behind it
};

LowerBound LowerBoundOf(const Plan& plan, const CostModel& costs);

}  // namespace stringline
