// Every placement is a problem of its own. All placements get a share of the time, and the
// placement with the best order gets the rest. The checker counts the bytes of found orders: if its
// count exceeds the search's, the search goes on with smaller capacities.
#include "schedlang/ask/search_session.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/free_split.h"
#include "schedlang/ask/judged_orders.h"
#include "schedlang/ask/offload_search.h"
#include "schedlang/ask/placed_search.h"
#include "schedlang/ask/placed_work.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/search/exact.h"
#include "schedlang/search/kept_orders.h"

namespace stringline {
namespace {

class SearchRun {
 public:
  SearchRun(const SearchRequest& request, const WatchSearch& watch)
      : request_(request),
        watch_(watch),
        end_ns_(NowNs() + request.budget.time_ns),
        stop_(request.stop, request.budget.iterations > 0 ? Stop::kNever : end_ns_) {
    request_.stop = &stop_;
  }

  absl::StatusOr<FoundSchedule> Run() {
    std::vector<PlacedSearch> places;
    for (const Plan& stages : request_.stages) SL_RETURN_IF_ERROR(CheckSize(stages));
    for (size_t i = 0; i < request_.stages.size(); ++i) {
      if (stop_.IsWished() && !places.empty()) break;
      absl::StatusOr<PlacedSearch> place = PreparePlace(request_, i, BudgetToChoose());
      if (place.ok()) {
        places.push_back(*std::move(place));
      } else if (request_.stages.size() == 1 || !absl::IsInvalidArgument(place.status())) {
        return place.status();
      } else {
        first_error_.Update(place.status());
      }
    }
    if (places.empty()) return first_error_;
    SL_RETURN_IF_ERROR(AddOtherSplits(&places));
    is_shared_ = places.size() > 1;
    if (is_shared_) SL_RETURN_IF_ERROR(SearchAll(&places));
    PlacedSearch& best =
        *std::min_element(places.begin(), places.end(),
                          [](const auto& a, const auto& b) { return ValueOf(a) < ValueOf(b); });
    for (const PlacedSearch& place : places) {
      const bool is_new =
          std::find(searched_.begin(), searched_.end(), place.word) == searched_.end();
      if (!place.word.empty() && is_new) searched_.push_back(place.word);
      if (&place != &best) least_elsewhere_ = std::min(least_elsewhere_, LeastOf(place));
    }
    return Finish(&best);
  }

 private:
  static absl::Status CheckSize(const Plan& stages) {
    const std::string why = search::WhyTooLarge(stages);
    return why.empty() ? absl::OkStatus() : absl::InvalidArgumentError(why);
  }

  // A split that is best by the search's count of bytes may have no good order that fits by the
  // checker's. So one for less memory, and the even one, are searched beside it.
  absl::Status AddOtherSplits(std::vector<PlacedSearch>* places) {
    constexpr double kRoom = 0.85;
    if (!request_.any_split || request_.stages.size() > 1) return absl::OkStatus();
    if (!places->front().memory.is_given()) return absl::OkStatus();
    const std::vector<int>& layers = places->front().stages.split.layers;
    SearchRequest even = request_;
    even.any_split = false;
    even.stages[0] =
        WithPartition(std::move(even.stages[0]),
                      search::EvenPartition(std::accumulate(layers.begin(), layers.end(), 0),
                                            static_cast<int>(layers.size())));
    absl::StatusOr<PlacedSearch> others[] = {PreparePlace(request_, 0, BudgetToChoose(), kRoom),
                                             PreparePlace(even, 0, BudgetToChoose())};
    for (absl::StatusOr<PlacedSearch>& other : others) {
      if (other.ok()) places->push_back(*std::move(other));
    }
    return absl::OkStatus();
  }

  // Of what is left, where several placements choose which stages recompute.
  SearchBudget BudgetToChoose() const {
    SearchBudget budget = request_.budget;
    const auto share = static_cast<int64_t>(request_.stages.size());
    budget.time_ns /= share;
    budget.iterations = (budget.iterations + share - 1) / share;
    return budget;
  }

  // The value of the best fitting order; kNoLimit if none was found.
  static int64_t ValueOf(const PlacedSearch& place) { return BestOf(place).score.value; }

  // When a search is over: at a time, or after so many iterations of a placement.
  struct Until {
    int64_t ns = 0;
    int64_t iterations = 0;  // 0: the time counts
  };

  // 1 / `parts` of the budget left until then.
  SearchBudget ShareOf(const Until& until, const PlacedSearch& place, int parts) const {
    SearchBudget budget = request_.budget;
    budget.time_ns = std::max<int64_t>(0, until.ns - NowNs()) / parts;
    if (until.iterations > 0) {
      budget.iterations = std::max<int64_t>(1, (until.iterations - place.state.iterations) / parts);
    }
    return budget;
  }

  // All placements share half of the budget.
  absl::Status SearchAll(std::vector<PlacedSearch>* places) {
    const auto share = static_cast<int64_t>(2 * places->size());
    const int64_t each_ns = std::max<int64_t>(0, end_ns_ - NowNs()) / share;
    for (PlacedSearch& place : *places) {
      SL_RETURN_IF_ERROR(SearchUntil(
          {NowNs() + each_ns, (request_.budget.iterations + share - 1) / share}, &place));
    }
    return absl::OkStatus();
  }

  // With a limit of bytes, checks now and then that the found orders fit by the checker's count.
  absl::Status SearchUntil(const Until& until, PlacedSearch* place) {
    std::vector<int> parts = {1};
    if (place->memory.is_given()) parts = {16, 16, 16, 16, 4, 2, 1};
    if (place->value) parts = {16, 8, 8, 4, 4, 2, 1};
    for (const int part : parts) {
      // Values of their own need most of the time.
      Search(ShareOf(until, *place, place->value ? 4 * part : part), place);
      SL_ASSIGN_OR_RETURN(const bool fits, TakeWhatFits(place));
      if (place->value) {
        ImproveByValue(
            ShareOf(until, *place, part), [&] { return GoesOn(*place); }, place);
        continue;
      }
      // Orders in less memory, and orders near those that fit, are searched in turn.
      const bool is_short = !fits || place->problem.capacity != place->capacity;
      if (is_short && part > 1) ImproveWhatFits(ShareOf(until, *place, part), place);
    }
    return absl::OkStatus();
  }

  void Search(const SearchBudget& budget, PlacedSearch* place) {
    SearchInRounds(
        place->problem, budget,
        [this, place](const SearchState&) {
          JudgeCandidates(place);
          return GoesOn(*place);
        },
        &place->state);
  }

  // Tells the watcher; false where the search is over.
  bool GoesOn(const PlacedSearch& place) const {
    if (stop_.IsWished()) return false;
    const search::Candidates& found = place.value ? place.judged : place.state.candidates;
    const int64_t best = found.empty() ? 0 : found.best().score.value;
    watch_({best, LeastOf(place), static_cast<double>(end_ns_ - NowNs()) / 1e9});
    return true;
  }

  // A small problem is first searched for a moment, and then solved exactly, if a quarter of the
  // budget suffices.
  void ProveIfSmall(const Until& until, PlacedSearch* place) {
    constexpr int64_t kMostLetters = 400, kMostNodes = 2'000'000;
    if (search::LettersOf(place->problem) > kMostLetters) return;
    if (place->problem.objective == search::Objective::kPeriod) return;
    if (place->value && !place->value->HasBoundOfProblem()) return;
    Search(ShareOf(until, *place, 8), place);
    SearchState& state = place->state;
    if (stop_.IsWished() || state.candidates.empty() || state.IsProven()) return;
    const SearchBudget quarter = ShareOf(until, *place, 4);
    const int64_t nodes = quarter.iterations == 0 ? kMostNodes : quarter.iterations;
    const Stop over(&stop_, quarter.iterations == 0 ? NowNs() + quarter.time_ns : Stop::kNever);
    search::Problem problem = place->problem;
    problem.stop = &over;
    const search::Proven proven = search::SolveExactly(problem, state.candidates.best().score.value,
                                                       std::min(nodes, kMostNodes), OnAllCores);
    search::Evaluator evaluator(place->problem);
    if (!proven.words.empty()) state.candidates.Offer(&evaluator, proven.words, std::nullopt);
    if (place->is_part) return;
    state.bound =
        std::max(state.bound, std::min(proven.bound, state.candidates.best().score.value));
  }

  absl::StatusOr<FoundSchedule> Finish(PlacedSearch* place) {
    const int64_t share = is_shared_ ? 2 : 1;
    const int64_t iterations = (request_.budget.iterations + share - 1) / share;
    const Until until{end_ns_, iterations > 0 ? place->state.iterations + iterations : 0};
    ProveIfSmall(until, place);
    SL_RETURN_IF_ERROR(SearchUntil(until, place));
    if (BestOf(*place).words.empty() && stop_.IsWished()) {
      return absl::NotFoundError(
          "the search was stopped before it found an order; give it more time (`seconds`)");
    }
    if (BestOf(*place).words.empty()) {
      return absl::NotFoundError("no order was found whose bytes fit; give more memory");
    }
    return Simulated(*place);
  }

  // Checks and simulates the best fitting order of the place.
  absl::StatusOr<FoundSchedule> Simulated(const PlacedSearch& place) {
    const search::Words& words = BestOf(place).words;
    FoundSchedule found;
    found.place = place.word;
    found.places = searched_;
    found.plan = search::PlanOf(place.stages, words);
    if (!place.recomputes.empty()) {
      found.plan.recompute = search::RecomputeOfPlan(place.recomputes);
    }
    found.lowered = LoweredOf(place, words);
    found.costs = place.costs;
    SL_RETURN_IF_ERROR(SimulateFound(request_, &found));
    found.bound = place.bound;
    found.least = std::min(LeastOf(place), least_elsewhere_);
    found.any_split = request_.any_split;
    found.memory = place.memory;
    for (size_t s = 0; s < place.recomputes.size(); ++s) {
      if (place.recomputes[s] == 1) found.recomputing.push_back(static_cast<int>(s));
    }
    found.value = ValueOf(place);
    SL_ASSIGN_OR_RETURN(CountedBytes bytes, CountBytes(found.lowered, found.costs));
    found.bytes = std::move(bytes.ranks);
    found.iterations = place.state.iterations;
    found.library = place.library;
    return found;
  }

  SearchRequest request_;
  const WatchSearch& watch_;
  const int64_t end_ns_;
  const Stop stop_;
  bool is_shared_ = false;                      // half of the budget goes to several places
  std::vector<std::string> searched_;           // places
  int64_t least_elsewhere_ = search::kNoLimit;  // no order in the other places is below
  absl::Status first_error_;
};

}  // namespace

double FoundSchedule::gap() const { return search::GapOf(value, least); }

absl::StatusOr<FoundSchedule> SearchSchedule(const SearchRequest& request,
                                             const WatchSearch& watch) {
  return SearchWork(request, watch,
                    [&watch](const SearchRequest& plain) { return SearchRun(plain, watch).Run(); });
}

}  // namespace stringline
