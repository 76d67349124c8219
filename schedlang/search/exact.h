// The best order of a small problem, with a proof.
#pragma once

#include <cstdint>
#include <functional>

#include "schedlang/search/problem.h"

namespace stringline::search {

struct Proven {
  Words words;               // empty: none below `upper` was found
  int64_t value = kNoLimit;  // the words' value; without words `upper`
  int64_t bound = 0;         // no order is below, or none below `upper`: by lower_bound.h,
                             // or better, by the states cut away
  bool finished = false;     // `bound` is `value`
  int64_t nodes = 0;         // states that were made
};

// Looks for orders below `upper` (kNoLimit: any order), and stops when the best is found and
// proven, or after about `most_nodes` states. Deterministic. Finished without words: no order is
// below `upper`; at kNoLimit, no order exists.
//
// For the makespan, and for kSpan with known starts of ranks (lower_bound.h), hard cases take some
// hundred thousand states, of some microseconds each; otherwise all words are tried, and only tiny
// problems are finished unless an order meets the bound. A problem with more than 64 kinds of
// groups on a rank is not begun. The least times of unequal microbatches count, so `bound` is one,
// and words may be worth less than `value`. Memory: some hundred megabytes at most.
//
// `all` does work(0) .. work(count - 1), in parallel or not; empty: in turn. The result does not
// depend on it.
using DoAll = std::function<void(int count, const std::function<void(int)>& work)>;
Proven SolveExactly(const Problem& problem, int64_t upper, int64_t most_nodes,
                    const DoAll& all = {});

}  // namespace stringline::search
