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
#include <utility>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

struct Policy {
  std::vector<int64_t> delay;  // by letter: nanoseconds
  std::vector<int32_t> hold;   // by stage: microbatches from their F to their I or B
  int64_t interval = 0;        // of the first stages: nanoseconds between their forwards
  int32_t burst = 0;           // the first so many come at once
  int64_t turn_interval = 0;   // of the last stages: nanoseconds between their I or B
  int32_t turn_burst = 0;      // the first so many come at once
  bool whole = false;          // B instead of I and W, where both may be used
  bool pairs = false;          // F and B or I together, where both could start
};

// By stage and microbatch: when its activation and its gradient are there.
struct Arrivals {
  std::vector<std::vector<int64_t>> activations, gradients;
};

// Orders that are complete and within the capacity; empty if the rule gets stuck. Cost: letters
// times the stages of a rank, and the ranks.
//
// A rank knows of a value as soon as whoever gives it has started. With `expected`, those of an
// earlier run of the rule, it also waits for one that should come soon instead of starting
// something longer; not longer than until then. `seen`, if not null, becomes the arrivals of this
// run.
Words ListOrders(const Problem& problem, const Policy& policy, const Arrivals* expected = nullptr,
                 Arrivals* seen = nullptr);

// The same again and again, each time expecting what was seen the time before, `runs` times in all.
// Calls take(words) for those that are complete.
template <typename Take>
void ListOrdersAgain(const Problem& problem, const Policy& policy, int runs, Take take) {
  Arrivals expected, seen;
  for (int run = 0; run < runs; ++run) {
    Words words = ListOrders(problem, policy, run == 0 ? nullptr : &expected, &seen);
    if (words.empty()) return;
    take(std::move(words));
    std::swap(expected, seen);
  }
}

}  // namespace stringline::search
