#include "schedlang/ask/rounds.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedlang/base/clock.h"
#include "schedlang/base/threads.h"
#include "schedlang/search/random.h"

namespace stringline {
namespace {

constexpr int kRulesAtOnce = 12;
// Explorations of a round: with a limit of time as many as there are cores; with a number of
// iterations one for each so many of them, so that the result does not depend on the cores.
constexpr int kLeast = 4, kMost = 64;
constexpr int64_t kIterationsOfEach = 100'000;
constexpr int64_t kFirstRound = 200;
constexpr int64_t kLongestRound = 20'000;
constexpr int64_t kRoundNs = 200'000'000;  // the aim for the length of a round
// Later rounds are longer, as slower annealing finds more: an exploration takes up to such a part
// of all that was done before.
constexpr int64_t kLaterPart = 3;

int ExplorationsOf(const SearchBudget& budget) {
  if (budget.iterations == 0) return std::max(kLeast, Cores());
  return static_cast<int>(
      std::clamp<int64_t>(budget.iterations / kIterationsOfEach, kLeast, kMost));
}

int64_t LongestRound(const SearchState& state, const SearchBudget& budget) {
  return std::max(kLongestRound, state.iterations / (kLaterPart * ExplorationsOf(budget)));
}

// Runs the explorations of a round.
void Round(const search::Problem& problem, const SearchBudget& budget, SearchState* state) {
  const int count = ExplorationsOf(budget);
  std::vector<search::Candidates> found(static_cast<size_t>(count));
  OnAllCores(count, [&](int i) {
    const uint64_t which = SeedOf(budget, state->rounds * count + i);
    found[static_cast<size_t>(i)] =
        search::Explore(problem, state->candidates, state->bound,
                        {state->round_size, search::Random(which).Next()});
  });
  for (const search::Candidates& candidates : found) state->candidates.Offer(candidates);
  state->iterations += count * state->round_size;
  ++state->rounds;
}

}  // namespace

int64_t NextRoundSize(int64_t size, int64_t took_ns, int64_t wanted_ns, int64_t longest) {
  constexpr int64_t kShortest = 20;
  if (took_ns > wanted_ns) return std::max(kShortest, size / 2);
  return took_ns < wanted_ns / 2 ? std::min(longest, size * 2) : size;
}

void OnAllCores(int count, const std::function<void(int)>& work) {
  ForEachOnThreads(count, Cores(), work);
}

void SearchInRounds(const search::Problem& problem, const SearchBudget& budget,
                    const SearchWatch& watch, SearchState* state) {
  const int64_t start_ns = NowNs();
  const bool timed = budget.iterations == 0;
  const int64_t end_ns = timed ? start_ns + budget.time_ns : std::numeric_limits<int64_t>::max();
  const int64_t most = state->iterations + budget.iterations;
  if (state->rounds == 0) {
    // Tries plain rules, for at most half of the time.
    const int64_t rules_end_ns = timed ? start_ns + budget.time_ns / 2 : end_ns;
    search::TryPlainRules(problem, state->bound,
                          {kRulesAtOnce, OnAllCores, [&] { return NowNs() <= rules_end_ns; }},
                          &state->candidates);
    state->round_size = kFirstRound;
    state->rounds = 1;
  }
  while (watch(*state) && !state->IsProven() && !state->candidates.empty()) {
    const int64_t began_ns = NowNs();
    if (timed ? began_ns >= end_ns : state->iterations >= most) break;
    if (!timed) {
      const int64_t count = ExplorationsOf(budget);
      const int64_t left = (most - state->iterations + count - 1) / count;
      state->round_size = std::min(state->round_size, left);
    }
    Round(problem, budget, state);
    const int64_t now_ns = NowNs();
    const int64_t longer_ns = std::max(kRoundNs, (now_ns - start_ns) / kLaterPart);
    state->round_size =
        NextRoundSize(state->round_size, timed ? now_ns - began_ns : 0,
                      std::min(longer_ns, end_ns - now_ns), LongestRound(*state, budget));
  }
}

}  // namespace stringline
