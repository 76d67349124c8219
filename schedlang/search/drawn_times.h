// Orders whose computations take other times in each of several draws, or that many steps repeat.
//
// The places of groups decide who waits for whom, and times do not: an order is walked once in
// topological order, and every group gets its end in all draws at once. Time is counted as in
// problem.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedlang/search/problem.h"

namespace stringline::search {

struct Draws {
  int count = 1;
  // By stage, kind (in the order of StageWork::time), microbatch and draw, what the time is
  // multiplied by; a pair takes that of its F. Empty: all are 1.
  std::vector<float> factors;
  // Each rank performs its word so often, and begins anew right behind `update`.
  int steps = 1;
  std::vector<int64_t> update;  // by rank; empty: no time
};

class DrawnTimes {
 public:
  // Keeps a copy of the problem.
  DrawnTimes(const Problem& problem, Draws draws);

  // False for words that never end. Cost: linear in letters times draws times steps.
  bool Run(const Words& words);
  // The end of the last rank in the last run, by draw.
  std::vector<int64_t> Makespans() const;
  // The period of the last run, as SteadyStepsOf (report/period.h) has it: the longest time of a
  // rank for one of the steps between the first and the last, on average. There are three steps or
  // more.
  int64_t Period() const;
  // The problem, which has no pairs, with the times of a draw, or with their means over the draws,
  // rounded down.
  Problem OfDraw(int draw) const;
  Problem OfMeans() const;
  // The least share of its time that an action takes by the means of the factors; 1 if none takes
  // less.
  double LeastMean() const;

 private:
  size_t At(int stage, ActionKind kind, int microbatch) const {
    return 4 * static_cast<size_t>(first_[stage]) +
           Index(kind) * static_cast<size_t>(problem_.stages[stage].microbatches) +
           static_cast<size_t>(microbatch);
  }
  bool Step(const Words& words);
  // Performs the rank's groups up to the first whose needs are not there.
  bool Advance(int rank, const std::vector<Group>& word);
  // The microbatch of the letter if its needs are there, else -1. `need`: where its input lies, if
  // it has to be waited for.
  int Ready(Letter letter, const int64_t** need) const;
  void Give(Letter letter, int microbatch, int rank);
  void FindLength(Group group, int microbatch);
  template <typename OfDraws>
  Problem With(OfDraws of) const;

  Problem problem_;
  Draws draws_;
  std::vector<int> first_;       // by stage, the microbatches of the stages before
  std::vector<int64_t> times_;   // by letter and microbatch (At), then draw
  std::vector<int64_t> there_;   // by value, then draw; inputs of all stages, then gradients
  std::vector<char> is_there_;   // by value
  std::vector<int64_t> now_;     // by rank, then draw
  std::vector<int64_t> queues_;  // by sender, receiver, then draw
  std::vector<int64_t> length_;  // of the group at hand, by draw
  std::vector<std::array<int, 4>> counts_;  // by stage: F, B and I, I alone, and W done
  std::vector<int> deferred_;               // by stage and number, the microbatch of its I
  std::vector<size_t> place_;               // by rank
  std::vector<std::vector<int64_t>> ends_;  // by step: now_
};

}  // namespace stringline::search
