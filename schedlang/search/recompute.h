// The stages that recompute, chosen together with the orders.
//
// A stage that recomputes holds less of a microbatch, and its B or I takes its F longer. A choice
// is valued by a short search. From the best of all stages, none, and the first ones, each stage in
// turn changes sides if the result is better. The same climb serves stages with more than two
// choices, as those that may also copy what they keep to the host.
#pragma once

#include <cstdint>
#include <functional>

#include "schedlang/search/partition.h"
#include "schedlang/search/search.h"

namespace stringline::search {

// A stage's choice, a sum of these.
inline constexpr int64_t kKeeps = 0, kRecomputes = 1, kOffloads = 2;

// By stage, 1 if its choice has the part.
std::vector<int64_t> StagesThat(int64_t part, const std::vector<int64_t>& choices);
// True if a stage has 1.
bool HasAny(const std::vector<int64_t>& stages);

// A choice with the best orders known for it.
struct RecomputeTrial {
  Recomputes stages;
  Score score;
  Words words;  // empty: none known
};

inline constexpr int64_t kShortMoves = 400;  // of a short search

struct RecomputeClimb {
  // A search for the choice, of so many moves, which may begin with these orders (empty: none).
  std::function<RecomputeTrial(const Recomputes& stages, const Words& begin, int64_t moves)> value;
  // Does work(0) .. work(count - 1), in parallel or not.
  std::function<void(int count, const std::function<void(int)>& work)> all;
  std::function<bool(int64_t spent)> goes_on;  // `spent`: iterations of the short searches
  // By stage its choices, equally many for each, from the least; empty: 0 and 1.
  std::vector<std::vector<int64_t>> choices = {};
  // A choice to begin with, and its orders; without stages: the choices that are alike for all.
  RecomputeTrial begin = {};
  // Longer searches, of up to so many moves, are tried where no change gains by short ones.
  int64_t most_moves = kShortMoves;
};

// The best choice for so many stages. Between equal values the one with the least sum.
RecomputeTrial ClimbRecomputes(int stages, const RecomputeClimb& climb);

// Adds the orders of a few plain rules, and of `moves` from the best.
void SearchShortly(const Problem& problem, int64_t moves, uint64_t seed, Candidates* candidates);

// A relaxation of every choice: stages as quick as without recomputing, and at every moment the
// smaller of the two memories. `none` and `all`: the problems in which no stage and every stage
// recomputes.
Problem WithEitherChoice(Problem none, const Problem& all);

// FindPartition and BoundOfPartitions where stages may choose (Partitioning::problem_with). Few
// choices for given layers are all searched; their bound is the least of their own.
Found FindRecomputes(const Partitioning& of, Found begin, const Effort& effort);
int64_t BoundOfRecomputes(const Partitioning& of);

}  // namespace stringline::search
