// From and to plans: what is to be ordered, and the orders that were found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/search/problem.h"
#include "schedlang/sim/costs.h"

namespace stringline::search {

// What the orders may hold and use.
struct Limits {
  int64_t activations = -1;     // of stages, that a rank may hold; -1: any number
  std::vector<int64_t> memory;  // by rank: bytes that it may hold; -1: any number. Empty: the same
  bool whole = true;            // B
  bool split = true;            // I and W
  bool pairs = false;           // F & B, and F & I where the costs know it
  Objective objective = Objective::kMakespan;
};

// A stage of the plan: its rank, its neighbours, how much it does. What it takes and holds is left
// to the caller.
StageWork WorkOf(const Plan& stages, StageId id);

// The stage holds one activation from F to B or W.
void HoldActivations(StageWork* work);

// What a microbatch of a stage holds, and what a message of it.
struct HeldBytes {
  int64_t for_input = 0;   // from F to B or I
  int64_t for_weight = 0;  // from F to B or W
  int64_t stash = 0;       // from I to W
  int64_t message = 0;
  int64_t remade_for_input = 0;   // while B or I runs
  int64_t remade_for_weight = 0;  // while B runs
};
void HoldBytes(const HeldBytes& held, StageWork* work);

// The stages of the plan at these costs; its actions do not matter. With `memory` the costs must
// say what stages hold: what is always there is taken from every rank's capacity. Errors:
// InvalidArgument where that is more than its `memory`, or where both limits are given.
absl::StatusOr<Problem> ProblemOf(const Plan& stages, const CostModel& costs, const Limits& limits);

// The plan's computations as words. Errors: InvalidArgument naming the first group that is none (of
// more than two parts, or not an F and one B or I). Microbatches become those of the counters.
absl::StatusOr<Words> WordsOf(const Plan& plan);

// `stages` with these orders: not lowered; all actions are at the schedule's name.
Plan PlanOf(Plan stages, const Words& words);

}  // namespace stringline::search
