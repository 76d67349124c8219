// The best order of a small problem, with the proof that it is.
#pragma once

#include <cstdint>

#include "schedlang/search/problem.h"

namespace stringline::search {

struct Proven {
  Words words;               // empty: none below `upper` was found
  int64_t value = kNoLimit;  // of the words; without words `upper`
  int64_t bound = 0;         // no order is below, or none below `upper`; that of lower_bound.h, or
                             // better by what was cut away
  bool finished = false;     // `bound` is `value`
  int64_t nodes = 0;         // states that were made
};

// Looks for orders below `upper` (kNoLimit: any order), and stops when the best one is found and
// proven, or after about `most_nodes` states. Deterministic. Finished without words: there is no
// order below `upper`; at kNoLimit, none at all.
//
// For the makespan, and for kSpan where the starts of ranks are known (lower_bound.h), hard cases
// take some hundred thousand states, of some microseconds each; otherwise all words are tried, and
// only tiny problems are finished unless an order meets the bound. A problem with more than 64
// kinds of groups on a rank is not begun. Memory: some hundred megabytes at most.
Proven SolveExactly(const Problem& problem, int64_t upper, int64_t most_nodes);

}  // namespace stringline::search
