// Greedy orders: a rule instead of an order.
//
// No rank idles while it can start something. Of all actions the one that can start earliest comes
// next (ties: the lower rank). Among the actions that a rank can start then, the kind that is
// preferred wins, then the one that is furthest along its way (F: the highest stage; B, I and W:
// the lowest), then the lowest microbatch. A message to another rank arrives OrderCosts::p2p after
// the action that gives it has ended; any number of them travel at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/plan.h"

namespace stringline {

// Where nothing is said: F 1, B 2, I 1, W 1.
inline OrderCosts UnitOrderCosts() { return {.actions = {{{1}, {2}, {1}, {1}}}}; }

// What one rank is told.
struct GreedyRule {
  // Microbatches that it may have begun and not finished: from their first F on this rank to their
  // last B or W there. None: any number. Stops only an F that would bring in a new one.
  std::optional<int64_t> hold;
  std::vector<ActionKind> prefer;  // the kinds it uses, the preferred one first
};

struct GreedyOrder {
  std::vector<std::vector<Action>> ranks;  // kind, stage, microbatch
  // Ranks that could not finish, because of `hold` or of kinds that nobody uses; empty if all is
  // done.
  std::vector<RankId> stuck;
  int64_t makespan = 0;  // when the last action ends, at the costs the order was made for
};

// `stages` gives stages and pipes; every stage does `microbatches[stage]`.
GreedyOrder OrderGreedily(const Plan& stages, const std::vector<int64_t>& microbatches,
                          const std::vector<GreedyRule>& rules, const OrderCosts& costs);

}  // namespace stringline
