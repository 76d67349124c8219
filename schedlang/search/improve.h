// Better words by small changes: simulated annealing over moves of one group on its rank, and where
// there are pairs over those that make one and part one.
//
// Most moves are of groups on a critical path, for only those can make the end come earlier (as in
// searches for the job shop: Nowicki and Smutnicki 1996). Among words of equal value those whose
// ranks end earlier count as better, which leads across plateaus.
#pragma once

#include <cstdint>

#include "schedlang/search/evaluator.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

struct Improved {
  Words words;
  Score score;
  int64_t trials = 0;
};

// Tries up to `trials` moves of complete words that end; stops when the value is `bound`. `heat` is
// the temperature to begin with, as a share of the mean time of a group; it falls to nothing.
Improved Improve(const Problem& problem, const Words& words, int64_t trials, double heat,
                 int64_t bound, uint64_t seed);

}  // namespace stringline::search
