// Every placement is a problem of its own. All of them get a share of the time, and the one whose
// best is best gets the rest. What was found is held against the checker: where the bytes that it
// counts are more than the search thought, the search goes on with a little less.
#include "tools/search/search_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/check/rules.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/search/exact.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/search/one_at_a_time.h"
#include "schedlang/sim/memory_curve.h"
#include "tools/search/places.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

struct PlacedSearch {
  Plan stages;
  CostModel costs;
  MemoryLimit memory;                // bytes that ranks may hold
  search::Problem problem;           // whose capacities become less
  std::vector<search::Words> begin;  // orders to begin with
  search::BoundParts bound;          // with all the memory
  SearchState state;
  std::vector<LibraryValue> library;
};

// With what the search begins with, and what it found that fits as well.
void BeginAnew(PlacedSearch* place) {
  const search::Candidates before = std::exchange(place->state.candidates, {});
  place->state.rounds = 0;
  search::Evaluator evaluator(place->problem);
  for (const search::Words& words : place->begin) {
    if (!search::IsComplete(place->problem, words)) continue;
    place->state.candidates.Offer(&evaluator, words, std::nullopt);
  }
  for (const search::Candidate& candidate : before.all()) {
    if (search::IsComplete(place->problem, candidate.words)) {
      place->state.candidates.Offer(candidate);
    }
  }
}

absl::Status CheckFits(const PlacedSearch& place, const search::Limits& limits) {
  for (int r = 0; r < place.problem.ranks; ++r) {
    const int64_t least = search::LeastCapacity(place.problem, r);
    const int64_t capacity = place.problem.capacity[static_cast<size_t>(r)];
    if (least <= capacity) continue;
    const bool bytes = limits.activations < 0;
    return absl::InvalidArgumentError(absl::StrCat(
        "no order exists within that memory: rank ", r, " must hold ",
        bytes ? PrintBytes(least)
              : absl::StrCat(least, least == 1 ? " activation" : " activations"),
        " for one microbatch",
        bytes ? absl::StrCat(", beside what is always there, and has ", PrintBytes(capacity))
              : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<PlacedSearch> PreparePlace(const SearchRequest& request, size_t index) {
  PlacedSearch place{request.stages[index]};
  SL_ASSIGN_OR_RETURN(place.costs, CostsFor(request.costs, place.stages));
  search::Limits limits = request.limits;
  if (limits.activations < 0 && (request.memory.is_given() || !place.costs.memory.empty())) {
    const int ranks = place.stages.ranks();
    SL_ASSIGN_OR_RETURN(place.memory, MemoryLimitOf(request.memory, &place.costs, ranks));
    for (int r = 0; r < ranks && place.memory.is_given(); ++r) {
      limits.memory.push_back(place.memory.of(r));
    }
  }
  SL_ASSIGN_OR_RETURN(place.problem, search::ProblemOf(place.stages, place.costs, limits));
  SL_RETURN_IF_ERROR(CheckFits(place, limits));
  place.bound = search::PartsOfBound(place.problem);
  place.state.bound = place.bound.sum();
  for (KnownOrders& known : LibraryOrdersOn(place.stages)) {
    if (!search::IsComplete(place.problem, known.words)) continue;
    place.library.push_back({known.schedule, search::ValueOf(place.problem, known.words)});
    place.begin.push_back(std::move(known.words));
  }
  std::stable_sort(place.library.begin(), place.library.end(),
                   [](const auto& a, const auto& b) { return a.value < b.value; });
  if (index == 0 && request.begin) place.begin.push_back(*request.begin);
  BeginAnew(&place);
  return place;
}

Plan LoweredOf(const PlacedSearch& place, const search::Words& words) {
  return LoweredPlan(search::PlanOf(place.stages, words), CommLayout::kEdge,
                     place.costs.collectives);
}

// By rank: how many bytes it holds, by the checker's count, beyond what it may. Empty if none does.
absl::StatusOr<std::vector<int64_t>> Overshoot(const PlacedSearch& place,
                                               const search::Words& words) {
  if (!place.memory.is_given()) return std::vector<int64_t>();
  const Plan lowered = LoweredOf(place, words);
  SL_ASSIGN_OR_RETURN(const MemoryPlan memory,
                      PlanMemory(lowered, SizesOfCosts(lowered, place.costs.memory)));
  std::vector<int64_t> over;
  for (int r = 0; r < lowered.ranks(); ++r) {
    const int64_t most = place.memory.of(r);
    over.push_back(most < 0 ? 0 : std::max<int64_t>(0, memory.ranks[r].all() - most));
  }
  if (std::count(over.begin(), over.end(), 0) == lowered.ranks()) over.clear();
  return over;
}

// Takes so much from what the search thinks a rank may hold. False where it is the least already.
bool Shrink(const std::vector<int64_t>& over, PlacedSearch* place) {
  bool is_less = false;
  for (int r = 0; r < place->problem.ranks; ++r) {
    int64_t& capacity = place->problem.capacity[static_cast<size_t>(r)];
    const int64_t least = search::LeastCapacity(place->problem, r);
    const int64_t left = std::max(least, capacity - over[static_cast<size_t>(r)]);
    is_less = is_less || left < capacity;
    capacity = left;
  }
  return is_less;
}

class SearchRun {
 public:
  SearchRun(const SearchRequest& request, const WatchSearch& watch)
      : request_(request), watch_(watch), end_ns_(NowNs() + request.budget.time_ns) {}

  absl::StatusOr<FoundSchedule> Run() {
    std::vector<PlacedSearch> places;
    for (size_t i = 0; i < request_.stages.size(); ++i) {
      absl::StatusOr<PlacedSearch> place = PreparePlace(request_, i);
      if (place.ok()) {
        places.push_back(*std::move(place));
      } else if (request_.stages.size() == 1 || !absl::IsInvalidArgument(place.status())) {
        return place.status();
      } else {
        first_error_.Update(place.status());
      }
    }
    if (places.empty()) return first_error_;
    if (places.size() > 1) {
      const auto share = static_cast<int64_t>(2 * places.size());
      for (PlacedSearch& place : places) {
        SearchBudget budget = request_.budget;
        budget.time_ns /= share;
        budget.iterations = (budget.iterations + share - 1) / share;
        Search(budget, &place);
      }
    }
    PlacedSearch& best =
        *std::min_element(places.begin(), places.end(),
                          [](const auto& a, const auto& b) { return ValueOf(a) < ValueOf(b); });
    return Finish(&best);
  }

 private:
  static int64_t ValueOf(const PlacedSearch& place) {
    return place.state.candidates.empty() ? search::kNoLimit
                                          : place.state.candidates.best().score.value;
  }

  void Search(const SearchBudget& budget, PlacedSearch* place) {
    SearchInRounds(
        place->problem, budget,
        [this](const SearchState& state) {
          if (stopped_) return false;
          const double left = static_cast<double>(end_ns_ - NowNs()) / 1e9;
          const int64_t best = state.candidates.empty() ? 0 : state.candidates.best().score.value;
          stopped_ = !watch_({best, state.bound, left});
          return !stopped_;
        },
        &place->state);
  }

  // A small problem is first searched for a moment, and then solved exactly, if a quarter of the
  // budget suffices.
  void ProveIfSmall(PlacedSearch* place) {
    constexpr int64_t kMostLetters = 400, kNodeNs = 25'000, kMostNodes = 2'000'000;
    if (search::LettersOf(place->problem) > kMostLetters) return;
    if (place->problem.objective == search::Objective::kPeriod) return;
    Search(ShareOfRest(*place, 8), place);
    SearchState& state = place->state;
    if (stopped_ || state.candidates.empty() || state.IsProven()) return;
    const SearchBudget quarter = ShareOfRest(*place, 4);
    const int64_t nodes = quarter.iterations == 0 ? quarter.time_ns / kNodeNs : quarter.iterations;
    const search::Proven proven = search::SolveExactly(
        place->problem, state.candidates.best().score.value, std::min(nodes, kMostNodes));
    search::Evaluator evaluator(place->problem);
    if (!proven.words.empty()) state.candidates.Offer(&evaluator, proven.words, std::nullopt);
    state.bound =
        std::max(state.bound, std::min(proven.bound, state.candidates.best().score.value));
  }

  // One part of so many of the time, or of the iterations, that are left.
  SearchBudget ShareOfRest(const PlacedSearch& place, int parts) const {
    SearchBudget budget = request_.budget;
    budget.time_ns = std::max<int64_t>(0, end_ns_ - NowNs()) / parts;
    if (budget.iterations > 0) {
      budget.iterations = std::max<int64_t>(1, (end_iterations_ - place.state.iterations) / parts);
    }
    return budget;
  }

  // Where bytes are limited it looks now and then whether what was found fits by the checker's
  // count.
  absl::StatusOr<FoundSchedule> Finish(PlacedSearch* place) {
    const int64_t share = request_.stages.size() > 1 ? 2 : 1;
    end_iterations_ = place->state.iterations + (request_.budget.iterations + share - 1) / share;
    ProveIfSmall(place);
    std::vector<int> parts = {1};
    if (place->memory.is_given()) parts = {16, 16, 16, 16, 4, 2, 1};
    search::Candidate best;
    for (const int part : parts) {
      Search(ShareOfRest(*place, part), place);
      SL_RETURN_IF_ERROR(TakeWhatFits(place, &best));
    }
    if (best.words.empty()) {
      search::Words least = search::OneAtATime(place->problem);
      SL_ASSIGN_OR_RETURN(const std::vector<int64_t> over, Overshoot(*place, least));
      if (!over.empty()) {
        return absl::NotFoundError("no order was found whose bytes fit; give more memory");
      }
      best.words = std::move(least);
    }
    return Simulated(best.words, *place);
  }

  // The best candidate that fits becomes `best` if it is better. Where the best of all does not
  // fit, the search thinks from now on that there is less.
  static absl::Status TakeWhatFits(PlacedSearch* place, search::Candidate* best) {
    std::vector<int64_t> over;  // of the best of all
    for (const search::Candidate& candidate : place->state.candidates.all()) {
      if (!(candidate.score < best->score)) break;
      SL_ASSIGN_OR_RETURN(std::vector<int64_t> beyond, Overshoot(*place, candidate.words));
      if (beyond.empty()) {
        *best = candidate;
        break;
      }
      if (over.empty()) over = std::move(beyond);
    }
    if (!over.empty() && Shrink(over, place)) BeginAnew(place);
    return absl::OkStatus();
  }

  absl::StatusOr<FoundSchedule> Simulated(const search::Words& words, const PlacedSearch& place) {
    FoundSchedule found;
    found.plan = search::PlanOf(place.stages, words);
    found.lowered = LoweredOf(place, words);
    Diagnostics findings;
    if (!Check(found.lowered, CheckOptions{}, &findings)) {
      return absl::InternalError(
          absl::StrCat("the order that was found is wrong: ", findings.findings().front().text));
    }
    found.costs = place.costs;
    PricePairs(found.lowered, &found.costs);
    const Wiring wiring =
        stringline::WiringOf(found.lowered, CommLayout::kEdge, found.costs.receive_buffers);
    SL_ASSIGN_OR_RETURN(found.timeline, SimulatedStep(found.lowered, wiring, found.costs));
    found.bound = place.bound;
    found.least = place.state.bound;
    found.memory = place.memory;
    found.objective = place.problem.objective;
    found.value = search::ValueOf(place.problem, words);
    found.iterations = place.state.iterations;
    found.library = place.library;
    return found;
  }

  const SearchRequest& request_;
  const WatchSearch& watch_;
  const int64_t end_ns_;
  int64_t end_iterations_ = 0;
  bool stopped_ = false;
  absl::Status first_error_;
};

}  // namespace

double FoundSchedule::gap() const {
  return least <= 0 ? 0 : static_cast<double>(value - least) / static_cast<double>(least);
}

absl::StatusOr<FoundSchedule> SearchSchedule(const SearchRequest& request,
                                             const WatchSearch& watch) {
  return SearchRun(request, watch).Run();
}

}  // namespace stringline
