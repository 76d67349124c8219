#include "schedlang/ask/recompute_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedlang/ask/placed_search.h"
#include "schedlang/ask/places.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/search/held_area.h"
#include "schedlang/search/recompute.h"

namespace stringline {
namespace {

class Chooser {
 public:
  Chooser(const SearchRequest& request, const StepCosts& costs, const Plan& stages,
          const SearchBudget& budget, const RecomputeChoice& before)
      : whole_request_(request),
        request_(request),
        costs_(costs),
        plan_(stages),
        budget_(budget),
        before_(before),
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
    const search::RecomputeTrial best = search::ClimbRecomputes(
        static_cast<int>(plan_.stages.size()),
        {.value = [this](const auto& stages, const auto& begin,
                         int64_t moves) { return Value(stages, begin, moves); },
         .all = OnAllCores,
         .goes_on = [this](int64_t spent) { return HasTime(spent); },
         .begin = {.stages = before_.words.empty() ? search::Recomputes() : before_.stages,
                   .words = before_.words},
         .most_moves = kMostMoves});
    RecomputeChoice choice{
        .stages = best.stages, .is_one_of_many = true, .words = best.words, .score = best.score};
    SL_ASSIGN_OR_RETURN(choice.bound, BoundOfAll(*most));
    return choice;
  }

 private:
  static constexpr int64_t kMostMoves = 64 * search::kShortMoves;

  bool HasTime(int64_t spent) const {
    return !over_.IsWished() && (budget_.iterations == 0 || spent < budget_.iterations / 2);
  }

  // Values a choice by a search; kNoLimit if no fitting order was found.
  search::RecomputeTrial Value(const search::Recomputes& stages, const search::Words& begin,
                               int64_t moves) const {
    constexpr int kTries = 4;
    search::RecomputeTrial valued{.stages = stages};
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
      search::SearchShortly(place.problem, moves, budget_.seed, &place.state.candidates);
      const absl::StatusOr<bool> all_fit = TakeWhatFits(&place);
      if (!all_fit.ok() || *all_fit) break;
    }
    valued.score = place.fitting.score;
    valued.words = std::move(place.fitting.words);
    return valued;
  }

  // A bound for every choice: stages as quick as without recomputing, with the smaller memory of
  // both; or what a rank must recompute to hold its microbatches.
  absl::StatusOr<search::BoundParts> BoundOfAll(const PlacedProblem& all) const {
    SearchRequest unlimited = whole_request_;
    unlimited.memory = std::numeric_limits<int64_t>::max() / 8;
    const std::vector<int64_t> none(plan_.stages.size(), 0);
    SL_ASSIGN_OR_RETURN(PlacedProblem placed, PlacedProblemOf(unlimited, costs_, plan_, none));
    const search::HeldTime held = search::LongestHeldTime(placed.problem, all.problem);
    search::BoundParts bound =
        search::PartsOfBound(search::WithEitherChoice(std::move(placed.problem), all.problem));
    if (held.time > bound.sum()) {
      bound = {.rank = held.rank,
               .reason = search::BoundParts::Reason::kArea,
               .work = held.work,
               .idle = held.time - held.work};
    }
    return bound;
  }

  const SearchRequest& whole_request_;
  SearchRequest request_;  // the same, with this choice's end
  const StepCosts& costs_;
  const Plan& plan_;
  const SearchBudget& budget_;
  const RecomputeChoice& before_;
  std::vector<search::Words> known_;  // the library's
  const Stop over_;
};

}  // namespace

absl::StatusOr<RecomputeChoice> ChooseRecompute(const SearchRequest& request,
                                                const StepCosts& costs, const Plan& stages,
                                                const SearchBudget& budget,
                                                const RecomputeChoice& before) {
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
  return Chooser(request, costs, stages, budget, before).Run();
}

}  // namespace stringline
