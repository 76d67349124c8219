// Better words by small changes: simulated annealing over moves of a group on its rank and, if the
// problem has pairs, over moves that join two groups or part a pair.
//
// Most moves are of groups on a critical path, since only those can make the end earlier (as in
// searches for the job shop: Nowicki and Smutnicki 1996). Among words of equal value those whose
// ranks end earlier count as better, which leads across plateaus.
#pragma once

#include <cstdint>
#include <functional>

#include "schedlang/search/evaluator.h"
#include "schedlang/search/problem.h"

namespace stringline::search {

struct Improved {
  Words words;
  Score score;
  int64_t trials = 0;
};

// A judgement of words that the problem does not know.
struct Judgement {
  // The share by which words exceed a limit; 0: they fit. Called for words better than all that
  // fit. Null: all fit.
  std::function<double(const Words& words)> excess;
  Score best;  // of words that fit
  // The value of words, in place of the problem's. Null: the problem's.
  std::function<int64_t(const Words& words)> value;
  bool is_above = false;  // `value` is never below the problem's
  // A value takes so many times as long as a trial: of the moves that are too bad by the problem's
  // count only one in so many gets a value.
  int takes = 1;
};

// Tries up to `trials` moves of complete words that end; stops when the value is `bound`. `heat` is
// the initial temperature, as a share of the mean time of a group; it falls to zero.
// With a judgement the words to begin with need not fit, and only words that fit and are better
// than its best are a result (else none); moves lead through others at a price.
Improved Improve(const Problem& problem, const Words& words, int64_t trials, double heat,
                 int64_t bound, uint64_t seed, const Judgement* judgement = nullptr);

}  // namespace stringline::search
