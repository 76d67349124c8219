// The optimiser with a clock and all cores: rounds of exploration until the time is over, the
// iterations are used up, or the bound is reached.
//
// A round is some explorations beside each other, which all begin with the orders found before. For
// a number of iterations their number, their seeds and how they are merged do not depend on the
// cores, so the result is the same on every machine. With a limit of time there are as many as
// cores, and as many rounds as the machine managed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/search/search.h"

namespace stringline {

// Does work(0) .. work(count - 1) on all cores.
void OnAllCores(int count, const std::function<void(int)>& work);

struct SearchBudget {
  int64_t time_ns = 10'000'000'000;
  int64_t iterations = 0;  // over all explorations; 0: as many as the time allows
  uint64_t seed = 1;
};

// The seed of one of the searches of a budget.
inline uint64_t SeedOf(const SearchBudget& budget, int64_t which) {
  return budget.seed * 1'000'003 + static_cast<uint64_t>(which);
}

// The iterations of an exploration in the next round, where one of `size` took so long: half as
// many if that was longer than wanted, twice as many, up to `longest`, if it was far shorter.
int64_t NextRoundSize(int64_t size, int64_t took_ns, int64_t wanted_ns, int64_t longest);

struct SearchState {
  search::Candidates candidates;
  int64_t bound = 0;
  int64_t iterations = 0;
  int64_t rounds = 0;
  int64_t round_size = 0;  // iterations of an exploration of the next round
  bool IsProven() const { return !candidates.empty() && candidates.best().score.value <= bound; }
};

// Called between rounds; false ends the search.
using SearchWatch = std::function<bool(const SearchState&)>;

// Goes on with `state`, whose bound is set, until its budget is used up.
void SearchInRounds(const search::Problem& problem, const SearchBudget& budget,
                    const SearchWatch& watch, SearchState* state);

}  // namespace stringline
