#include "tools/search/rounds.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <utility>

#include "executor/clock.h"
#include "schedlang/base/threads.h"
#include "schedlang/search/policies.h"
#include "schedlang/search/random.h"

namespace stringline {
namespace {

constexpr int kExplorations = 4;  // of a round
constexpr int64_t kFirstRound = 200;
constexpr int64_t kLongestRound = 20'000;
constexpr int64_t kRoundNs = 200'000'000;  // about as long should one take

// Does work(0) .. work(count - 1) on all cores. Where no more threads are to be had, this one does
// it all.
void OnAllCores(int count, const std::function<void(int)>& work) {
  std::atomic<int> next = 0;
  const auto take = [&] {
    for (int i = next++; i < count; i = next++) work(i);
  };
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  (void)StartThreads(std::clamp(cores, 1, count) - 1, take, &others);
  take();
  for (std::thread& other : others) other.join();
}

// The explorations of one round.
void Round(const search::Problem& problem, const SearchBudget& budget, SearchState* state) {
  std::vector<search::Candidates> found(kExplorations);
  OnAllCores(kExplorations, [&](int i) {
    const uint64_t which =
        budget.seed * 1'000'003 + static_cast<uint64_t>(state->rounds * kExplorations + i);
    found[static_cast<size_t>(i)] =
        search::Explore(problem, state->candidates, state->bound,
                        {state->round_size, search::Random(which).Next()});
  });
  for (const search::Candidates& candidates : found) state->candidates.Offer(candidates);
  state->iterations += kExplorations * state->round_size;
  ++state->rounds;
}

// All plain rules, but those for which there is no time left.
void PlainRules(const search::Problem& problem, int64_t end_ns, SearchState* state) {
  constexpr int kAlways = 12;
  const std::vector<search::Policy> policies = search::PlainPolicies(problem);
  std::vector<search::Words> words(policies.size());
  OnAllCores(static_cast<int>(policies.size()), [&](int i) {
    if (i >= kAlways && NowNs() > end_ns) return;
    words[static_cast<size_t>(i)] = search::ListOrders(problem, policies[static_cast<size_t>(i)]);
  });
  search::Evaluator evaluator(problem);
  for (size_t i = 0; i < policies.size(); ++i) {
    state->candidates.Offer(&evaluator, std::move(words[i]), policies[i]);
  }
}

}  // namespace

void SearchInRounds(const search::Problem& problem, const SearchBudget& budget,
                    const SearchWatch& watch, SearchState* state) {
  const int64_t start_ns = NowNs();
  const bool timed = budget.iterations == 0;
  const int64_t end_ns = timed ? start_ns + budget.time_ns : std::numeric_limits<int64_t>::max();
  const int64_t most = state->iterations + budget.iterations;
  if (state->rounds == 0) {
    PlainRules(problem, timed ? start_ns + budget.time_ns / 2 : end_ns, state);
    state->round_size = kFirstRound;
    state->rounds = 1;
  }
  while (watch(*state) && !state->IsProven() && !state->candidates.empty()) {
    const int64_t began_ns = NowNs();
    if (timed ? began_ns >= end_ns : state->iterations >= most) break;
    Round(problem, budget, state);
    if (!timed) {
      state->round_size = std::min(kLongestRound, state->round_size * 2);
      continue;
    }
    const int64_t took_ns = NowNs() - began_ns;
    const int64_t wanted_ns = std::min(kRoundNs, end_ns - NowNs());
    if (took_ns > wanted_ns) state->round_size = std::max<int64_t>(20, state->round_size / 2);
    if (took_ns < wanted_ns / 2) state->round_size = std::min(kLongestRound, state->round_size * 2);
  }
}

}  // namespace stringline
