// Converts plans to problems, and orders to plans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

// Limits and allowed actions of orders.
struct Limits {
  int64_t activations = -1;     // most stage activations of a rank; -1: no limit
  std::vector<int64_t> memory;  // by rank: most bytes; -1: no limit. Empty: no limit
  bool whole = true;            // B
  bool split = true;            // I and W
  bool pairs = false;           // F & B, and F & I if the costs include it
  Objective objective = Objective::kMakespan;
};

// A stage of the plan: its rank, its neighbours, its microbatches. The caller adds times and
// memory.
StageWork WorkOf(const Plan& stages, StageId id);

// The stage holds one activation from F to B or W.
void HoldActivations(StageWork* work);

// Bytes of a microbatch of a stage, and of its messages.
struct HeldBytes {
  int64_t for_input = 0;   // from F to B or I
  int64_t for_weight = 0;  // from F to B or W
  int64_t stash = 0;       // from I to W
  int64_t input = 0;       // the message from the stage before, and its gradient; 0 without one
  int64_t output = 0;      // the message to the next stage, and its gradient; 0 without one
  int64_t remade_for_input = 0;   // while B or I runs
  int64_t remade_for_weight = 0;  // while B runs
};
void HoldBytes(const HeldBytes& held, StageWork* work);
// The same for a stage that copies to the host: between F and B or I it holds a share of what F
// kept, from nothing (0) to all of it (1).
void HoldShare(const HeldBytes& held, double share, StageWork* work);
// Without messages, and with those of the stage, whose sizes `memory` has by stage.
HeldBytes HeldOf(const StageMemory& memory);
HeldBytes HeldOf(const Plan& stages, const std::vector<StageMemory>& memory, StageId id);

// The choice as a plan has it (Plan::recompute): empty if no stage recomputes.
std::vector<int> RecomputeOfPlan(absl::Span<const int64_t> recomputes);

// WhyTooLarge (problem.h) for orders of F, I and W of all microbatches.
std::string WhyTooLarge(const Plan& stages);

// The stages of the plan at these costs; its actions do not matter. With `memory` the costs must
// include the bytes of stages: resident bytes are subtracted from every rank's capacity. Errors:
// InvalidArgument if they exceed its `memory`, if both limits are given, or if costs are of unequal
// microbatches.
absl::StatusOr<Problem> ProblemOf(const Plan& stages, const CostModel& costs, const Limits& limits);

// The plan's computations as words. Errors: InvalidArgument naming the first invalid group (more
// than two parts, or not an F and one B or I), or the first R, D or U. Microbatches become those of
// the counters.
absl::StatusOr<Words> WordsOf(const Plan& plan);

// `stages` with these orders: not lowered; all actions have the place of the schedule's name.
Plan PlanOf(Plan stages, const Words& words);

}  // namespace stringline::search
