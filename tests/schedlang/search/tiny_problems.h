// Problems out of nowhere and all orders of small ones, for tests of bounds and solvers. Slow and
// plain: the only thing used of the library is the evaluation of one order.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "schedlang/search/problem.h"

namespace stringline::search {

// A pipe with one stage on each of these ranks, in this order; times, messages and memory as
// `costs` has them for stage 0, with 1 activation for every F.
void AddPipe(const std::vector<int>& ranks, int microbatches, const StageWork& costs,
             Problem* problem);
// What F, B, I and W take; activations are held.
StageWork Costs(int64_t forward, int64_t whole, int64_t input, int64_t weight, int64_t latency = 0);
// One pipe, nothing limited, I and W.
Problem OnRanks(const std::vector<int>& ranks, int microbatches, const StageWork& costs);

// Placements, unequal stages, messages, memory of either sort, pairs, objectives: as they come.
// `most` microbatches; sometimes nothing fits.
Problem RandomProblem(std::mt19937_64& random, int most_ranks, int most_microbatches);
std::string Print(const Problem& problem);

// An order in which everything could be done, one group behind the other; empty where it ran into a
// memory that is full.
Words RandomWords(const Problem& problem, std::mt19937_64& random);

// The best value of all orders, kNoLimit if there is none; nothing if there are more than `most`.
std::optional<int64_t> BestOfAll(const Problem& problem, int64_t most);

}  // namespace stringline::search
