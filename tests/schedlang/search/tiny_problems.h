// Random problems, and all orders of small problems, for tests of bounds and solvers. Slow and
// plain: the library's only part in them is the evaluation of an order.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "schedlang/search/problem.h"

namespace stringline::search {

// A pipe with a stage on each of these ranks, in this order; times, messages and memory as in
// `costs` for stage 0, with 1 activation for every F.
void AddPipe(const std::vector<int>& ranks, int microbatches, const StageWork& costs,
             Problem* problem);
// Times of F, B, I and W; activations are held.
StageWork Costs(int64_t forward, int64_t whole, int64_t input, int64_t weight, int64_t latency = 0);
// A single pipe without limits, with I and W.
Problem OnRanks(const std::vector<int>& ranks, int microbatches, const StageWork& costs);

// Placements, unequal stages, messages, memory of either sort, pairs, objectives: as they come.
// `most` microbatches; sometimes nothing fits.
Problem RandomProblem(std::mt19937_64& random, int most_ranks, int most_microbatches);
// A problem with tight limits: ranks hold their least need or one more, or messages take longer
// than computation, or both.
Problem BindingProblem(std::mt19937_64& random, int most_ranks, int most_microbatches);
// The problem with unequal microbatches, of times about those that it has, and without pairs.
Problem WithUnequalMicrobatches(Problem problem, std::mt19937_64& random);
std::string Print(const Problem& problem);

// An order in which everything could be done, group by group; empty where a memory filled up.
Words RandomWords(const Problem& problem, std::mt19937_64& random);

// The best value of all orders, kNoLimit if no order exists; nothing if there are more than `most`.
std::optional<int64_t> BestOfAll(const Problem& problem, int64_t most);

}  // namespace stringline::search
