// Orders by a rule: every free rank does its most urgent letter.
//
// All ranks are followed in time. Each letter that a rank could do next counts as if it started
// `delay` later than it can, and the earliest is done. So an F with a delay of 3 is done when no
// gradient comes within 3; a W with the delay of its own length fills the gaps in which it has
// room. `hold` bounds the microbatches of a stage under way, and `interval` lets new microbatches
// into a pipe at a steady pace, behind the first `burst`, which keeps schedules with little memory
// going (V-Half and V-Min in Qi et al. 2024, "Pipeline Parallelism with Controllable Memory").
// `turn_interval` does the same at the turn of microbatches: with memory to spare a last rank then
// gets ahead with forwards, and can give gradients faster when the ranks before it have nothing
// else left.
//
// A rule with a building block follows it: a rank's F, B and I come in the order of the repeated
// pattern, as soon as they can, and its W by their delay, or at once if the next F has no room.
// A mirrored rule is one for the problem backwards in time (mirrored.h), whose order is followed in
// the same way.
//
// Otherwise no F begins if the ranks could then lack memory to finish anything: behind it the rank
// has room for the remaining needs of its furthest microbatch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/search/building_block.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

struct Policy {
  std::vector<int64_t> delay;  // by letter: nanoseconds
  std::vector<int32_t> hold;   // by stage: microbatches from their F to their I or B
  // By stage: the most forwards before its first I or B, so that the first backward need not wait
  // for the last of them. All ranks before it wait for it.
  std::vector<int32_t> warm_up;
  int64_t interval = 0;       // at the first stages: nanoseconds between their forwards
  int32_t burst = 0;          // the first so many come at once
  int64_t turn_interval = 0;  // at the last stages: nanoseconds between their I or B
  int32_t turn_burst = 0;     // the first so many come at once
  bool whole = false;         // B instead of I and W, where both may be used
  bool pairs = false;         // F and B or I together, where both could start
  std::optional<BuildingBlock> block;
  bool mirrored = false;  // F and B, or F and I, in an order of the mirrored problem, turned round
};

// The kind that goes back through the stages under the rule: B or I.
ActionKind BackOf(const Problem& problem, const Policy& policy);

// Orders that are complete and within the capacity; empty if the rule gets stuck. Cost: letters
// times (stages of a rank + ranks).
Words ListOrders(const Problem& problem, const Policy& policy);

}  // namespace stringline::search
