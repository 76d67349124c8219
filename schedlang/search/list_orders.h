// Orders by a rule: every rank, when it is free, does what is worth most then.
//
// All ranks are followed in time. Of what a rank could do next, each letter counts as if it could
// start `delay` later than it can, and the one that starts first is done. So an F with a delay of 3
// is done when no gradient comes within 3; a W with the delay of its own length fills the gaps in
// which it has room. `hold` bounds how many microbatches of a stage are under way, and
// `interval` lets new ones into a pipe at a steady pace, behind the first `burst`, which is what
// keeps schedules with little memory going (V-Half and V-Min in Qi et al. 2024, "Pipeline
// Parallelism with Controllable Memory"). `turn_interval` does the same where microbatches turn:
// with memory to spare a last rank then gets ahead with forwards, and can give gradients faster
// when the ranks before it have nothing else left.
//
// No F begins that could leave the ranks without memory to finish anything: when it has run, there
// is room for what the furthest of the rank's microbatches still needs there.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

struct Policy {
  std::vector<int64_t> delay;  // by letter: nanoseconds
  std::vector<int32_t> hold;   // by stage: microbatches from their F to their I or B
  // By stage: the most forwards before its first I or B, so that this one need not wait for the
  // last of them. All ranks before it wait for it.
  std::vector<int32_t> warm_up;
  int64_t interval = 0;       // of the first stages: nanoseconds between their forwards
  int32_t burst = 0;          // the first so many come at once
  int64_t turn_interval = 0;  // of the last stages: nanoseconds between their I or B
  int32_t turn_burst = 0;     // the first so many come at once
  bool whole = false;         // B instead of I and W, where both may be used
  bool pairs = false;         // F and B or I together, where both could start
};

// Orders that are complete and within the capacity; empty if the rule gets stuck. Cost: letters
// times the stages of a rank, and the ranks.
Words ListOrders(const Problem& problem, const Policy& policy);

}  // namespace stringline::search
