#include "schedlang/ask/recompute_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedlang/ask/placed_search.h"
#include "schedlang/ask/places.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/search/search.h"

namespace stringline {
namespace {

using search::kForwardAt;
using search::kInputAt;
using search::kWeightAt;
using search::kWholeAt;
using search::StageWork;

constexpr int kRules = 12;       // in a short search
constexpr int64_t kMoves = 400;  // behind them
constexpr int64_t kShortSearch = 10 * kRules + kMoves;

const search::RuleTurns kShortTurns = {.at_once = kRules,
                                       .all =
                                           [](int count, const std::function<void(int)>& make) {
                                             for (int i = 0; i < count; ++i) make(i);
                                           },
                                       .goes_on = [] { return false; }};

struct Valued {
  std::vector<int64_t> stages;
  search::Score score;
  search::Words words;
  int recomputing() const { return static_cast<int>(std::count(stages.begin(), stages.end(), 1)); }
};

// Between equal values the choice with fewer recomputing stages is better.
bool IsBetter(const Valued& a, const Valued& b) {
  if (a.score.value != b.score.value) return a.score.value < b.score.value;
  return a.recomputing() < b.recomputing();
}

// At every moment the smaller of the two memories.
void HoldTheLess(const StageWork& other, StageWork* work) {
  auto& [forward, whole, input, weight] = work->during;
  const int64_t held = std::min(work->after[kForwardAt], other.after[kForwardAt]);
  const auto less = [&](int64_t of_work, int64_t of_other) {
    return std::min(work->after[kForwardAt] + of_work, other.after[kForwardAt] + of_other);
  };
  const int64_t in_whole = less(whole, other.during[kWholeAt]);
  const int64_t in_input = less(input, other.during[kInputAt]);
  const int64_t deferred = less(work->after[kInputAt], other.after[kInputAt]);
  forward = std::min(forward, other.during[kForwardAt]);
  whole = in_whole - held;
  input = in_input - held;
  weight = std::min(weight, other.during[kWeightAt]);
  work->after = {held, -held, deferred - held, -deferred};
}

class Chooser {
 public:
  Chooser(const SearchRequest& request, const StepCosts& costs, const Plan& stages,
          const SearchBudget& budget)
      : whole_request_(request),
        request_(request),
        costs_(costs),
        plan_(stages),
        budget_(budget),
        over_(request.stop, budget.iterations == 0 ? NowNs() + budget.time_ns / 2 : Stop::kNever) {
    request_.stop = &over_;
    for (KnownOrders& known : LibraryOrdersOn(stages, &over_))
      known_.push_back(std::move(known.words));
  }

  absl::StatusOr<RecomputeChoice> Run() {
    const std::vector<int64_t> none(plan_.stages.size(), 0), all(plan_.stages.size(), 1);
    const auto least = PlacedProblemOf(request_, costs_, plan_, none);
    const auto most = PlacedProblemOf(request_, costs_, plan_, all);
    // Without a limit of bytes recomputing gains nothing.
    if (!most.ok() || !most->memory.is_given()) {
      if (least.ok()) return RecomputeChoice{.stages = none};
      return most.ok() ? least.status() : most.status();
    }
    Valued best = Value(all);
    if (Valued other = Value(none); IsBetter(other, best)) best = std::move(other);
    Climb(&best);
    RecomputeChoice choice{.stages = best.stages, .is_one_of_many = true, .begin = {best.words}};
    SL_ASSIGN_OR_RETURN(choice.bound, BoundOfAll(*most));
    return choice;
  }

 private:
  bool HasTime() const {
    return !over_.IsWished() && (budget_.iterations == 0 || spent_ < budget_.iterations / 2);
  }

  // Values a choice by a short search; kNoLimit if no fitting order was found.
  Valued Value(const std::vector<int64_t>& stages, const search::Words& begin = {}) const {
    constexpr int kTries = 4;
    Valued valued{.stages = stages};
    absl::StatusOr<PlacedProblem> placed = PlacedProblemOf(request_, costs_, plan_, stages);
    if (!placed.ok()) return valued;
    PlacedSearch place{.stages = plan_,
                       .costs = std::move(placed->costs),
                       .memory = std::move(placed->memory),
                       .problem = std::move(placed->problem)};
    for (const search::Words& words : known_) {
      if (over_.IsWished()) break;
      OfferKnown(words, &place);
    }
    OfferKnown(begin, &place);
    BeginAnew(&place);
    for (int i = 0; i < kTries && (i == 0 || !over_.IsWished()); ++i) {
      search::Candidates& candidates = place.state.candidates;
      search::TryPlainRules(place.problem, 0, kShortTurns, &candidates);
      candidates = search::Explore(place.problem, std::move(candidates), 0, {kMoves, budget_.seed});
      const absl::StatusOr<bool> all_fit = TakeWhatFits(&place);
      if (!all_fit.ok() || *all_fit) break;
    }
    valued.score = place.fitting.score;
    valued.words = std::move(place.fitting.words);
    return valued;
  }

  // Some stages are tried beside each other; the best of them counts.
  void Climb(Valued* best) {
    constexpr size_t kAtOnce = 4;
    const size_t count = plan_.stages.size();
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (size_t s = 0; s < count && HasTime(); s += kAtOnce) {
        std::vector<Valued> tried(std::min(kAtOnce, count - s));
        OnAllCores(static_cast<int>(tried.size()), [&](int i) {
          std::vector<int64_t> stages = best->stages;
          stages[s + static_cast<size_t>(i)] ^= 1;
          tried[static_cast<size_t>(i)] = Value(stages, best->words);
        });
        spent_ += static_cast<int64_t>(tried.size()) * kShortSearch;
        Valued& first = *std::min_element(tried.begin(), tried.end(), IsBetter);
        if (!IsBetter(first, *best)) continue;
        *best = std::move(first);
        is_better = true;
      }
    }
  }

  // A bound for every choice: stages as quick as without recomputing, with the smaller memory of
  // both.
  absl::StatusOr<search::BoundParts> BoundOfAll(const PlacedProblem& all) const {
    SearchRequest unlimited = whole_request_;
    unlimited.memory = std::numeric_limits<int64_t>::max() / 8;
    const std::vector<int64_t> none(plan_.stages.size(), 0);
    SL_ASSIGN_OR_RETURN(PlacedProblem placed, PlacedProblemOf(unlimited, costs_, plan_, none));
    placed.problem.capacity = all.problem.capacity;
    for (size_t s = 0; s < none.size(); ++s) {
      HoldTheLess(all.problem.stages[s], &placed.problem.stages[s]);
    }
    return search::PartsOfBound(placed.problem);
  }

  const SearchRequest& whole_request_;
  SearchRequest request_;  // the same, with this choice's end
  const StepCosts& costs_;
  const Plan& plan_;
  const SearchBudget& budget_;
  std::vector<search::Words> known_;  // the library's
  const Stop over_;
  int64_t spent_ = 0;  // iterations
};

}  // namespace

absl::StatusOr<RecomputeChoice> ChooseRecompute(const SearchRequest& request,
                                                const StepCosts& costs, const Plan& stages,
                                                const SearchBudget& budget) {
  const size_t count = stages.stages.size();
  switch (request.recompute) {
    case SearchRecompute::kAsCosts:
      return RecomputeChoice();
    case SearchRecompute::kNone:
      return RecomputeChoice{.stages = std::vector<int64_t>(count, 0)};
    case SearchRecompute::kAll:
      return RecomputeChoice{.stages = std::vector<int64_t>(count, 1)};
    case SearchRecompute::kAny:
      break;
  }
  return Chooser(request, costs, stages, budget).Run();
}

}  // namespace stringline
