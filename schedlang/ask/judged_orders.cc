#include "schedlang/ask/judged_orders.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedlang/base/clock.h"
#include "schedlang/base/threads.h"
#include "schedlang/search/improve.h"
#include "schedlang/search/random.h"

namespace stringline {
namespace {

constexpr int kAtOnce = 4;
constexpr int64_t kFirstRound = 250, kLongestRound = 20'000;  // trials of an annealing
constexpr int64_t kRoundNs = 500'000'000;                     // the aim for the length of a round
constexpr int kSimulationTakes = 4;                           // in trials (Judgement)

int AnnealingsOf(const SearchBudget& budget) {
  if (budget.iterations > 0) return kAtOnce;
  return std::max(kAtOnce, Cores());
}

// An annealing from one of the best orders, half of the times from the best.
search::Improved Anneal(const PlacedSearch& place, const search::Problem& problem, int64_t trials,
                        uint64_t seed) {
  constexpr double kHeats[] = {0.02, 0.1, 0.3, 1.0};
  search::Random random(seed);
  TrueValue value = *place.value;
  const search::Judgement judgement = {
      .excess = ExcessOf(place),
      .best = place.memory.is_given() ? place.judged.best().score : search::Score(),
      .value = [&value](const search::Words& words) { return value.Of(words); },
      .is_above = value.HasBoundOfProblem(),
      .takes = value.IsSimulated() ? kSimulationTakes : 1};
  const auto& all = place.judged.all();
  const size_t which =
      random.OneIn(2) ? 0 : static_cast<size_t>(random.Below(static_cast<int64_t>(all.size())));
  const double heat = kHeats[random.Below(4)];
  return search::Improve(problem, all[which].words, trials, heat, LeastOf(place), random.Next(),
                         &judgement);
}

}  // namespace

int64_t Judge(search::Candidate candidate, PlacedSearch* place) {
  if (!place->value) return candidate.score.value;
  candidate.score.value = place->value->Of(candidate.words);
  const int64_t value = candidate.score.value;
  place->judged.Offer(std::move(candidate));
  return value;
}

void JudgeCandidates(PlacedSearch* place) {
  if (!place->value || place->memory.is_given()) return;
  for (const search::Candidate& candidate : place->state.candidates.all()) {
    if (!place->seen.emplace(candidate.score.value, candidate.score.ends).second) continue;
    if (IsWished(place->problem.stop) && !place->judged.empty()) return;
    Judge({candidate.words, candidate.score, std::nullopt}, place);
  }
}

const search::Candidate& BestOf(const PlacedSearch& place) {
  static const search::Candidate kNone;
  if (!place.value) return place.fitting;
  return place.judged.empty() ? kNone : place.judged.best();
}

void FindLeast(const SearchBudget& budget, PlacedSearch* place) {
  const bool is_timed = budget.iterations == 0;
  const Stop over(place->problem.stop, is_timed ? NowNs() + budget.time_ns / 8 : Stop::kNever);
  place->least = place->value->BoundFrom(place->state.bound, place->is_part, &over);
}

int64_t LeastOf(const PlacedSearch& place) {
  if (!place.value) return place.state.bound;
  return place.value->HasBoundOfProblem() ? std::max(place.least, place.state.bound) : place.least;
}

void ImproveByValue(const SearchBudget& budget, const std::function<bool()>& goes_on,
                    PlacedSearch* place) {
  const bool is_timed = budget.iterations == 0;
  const int64_t end_ns = is_timed ? NowNs() + budget.time_ns : Stop::kNever;
  const int64_t most = place->state.iterations + budget.iterations;
  const Stop over(place->problem.stop, end_ns);
  search::Problem problem = place->problem;
  problem.capacity = place->capacity;
  problem.stop = &over;
  const int count = AnnealingsOf(budget);
  if (place->round_size == 0) place->round_size = kFirstRound;
  while (!place->judged.empty() && place->judged.best().score.value > LeastOf(*place) &&
         goes_on()) {
    const int64_t began_ns = NowNs();
    if (over.IsWished() || (!is_timed && place->state.iterations >= most)) break;
    int64_t trials = place->round_size;
    if (!is_timed) {
      trials = std::min(trials, (most - place->state.iterations + count - 1) / count);
    }
    std::vector<search::Improved> found(static_cast<size_t>(count));
    OnAllCores(count, [&](int i) {
      const uint64_t which = SeedOf(budget, place->state.iterations + i);
      found[static_cast<size_t>(i)] = Anneal(*place, problem, trials, search::Random(which).Next());
    });
    for (search::Improved& improved : found) {
      if (improved.words.empty()) continue;
      place->judged.Offer({std::move(improved.words), improved.score, std::nullopt});
    }
    place->state.iterations += count * trials;
    place->round_size = NextRoundSize(place->round_size, is_timed ? NowNs() - began_ns : 0,
                                      kRoundNs, kLongestRound);
  }
}

}  // namespace stringline
