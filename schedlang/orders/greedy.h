// Greedy orders: a rule instead of an order.
//
// No rank idles while it can start something. The next action is always the earliest to start
// (ties: the lower rank). Among the actions that a rank can start then, the preferred kind wins,
// then the action furthest along its way (F: the highest stage; B, I and W: the lowest), then the
// lowest microbatch. A message to another rank arrives OrderCosts::p2p after its producer has
// ended; any number of messages travel at once. The B or I of a stage that recomputes
// (Plan::recompute) takes its F longer, unless the rank prefers R: an R takes as long as an F, and
// comes when the gradient for its B or I is there, or ahead of it: then the lowest microbatch of
// the stage without R is next, one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/plan/plan.h"

namespace stringline {

// Default costs: F 1, B 2, I 1, W 1.
inline OrderCosts UnitOrderCosts() { return {.actions = {{{1}, {2}, {1}, {1}}}}; }

// The rule of a rank.
struct GreedyRule {
  // Most microbatches on the rank at once, each from its first F to its last B or W there; none:
  // any number. Stops only an F that begins a microbatch on the rank.
  std::optional<int64_t> hold;
  std::vector<ActionKind> prefer;  // the kinds used, in order of preference
};

struct GreedyOrder {
  std::vector<std::vector<Action>> ranks;  // kind, stage, microbatch
  // Ranks with work left, because of `hold` or of kinds used by no rank; empty if all is done.
  std::vector<RankId> stuck;
  int64_t makespan = 0;  // the end of the last action, at the costs of the order
};

// `stages` gives stages and pipes; every stage does `microbatches[stage]`.
GreedyOrder OrderGreedily(const Plan& stages, const std::vector<int64_t>& microbatches,
                          const std::vector<GreedyRule>& rules, const OrderCosts& costs);

}  // namespace stringline
