// Every placement is a problem of its own. All of them get a share of the time, and the one whose
// best is best gets the rest. What was found is held against the checker: where bytes that it
// counts exactly are more than the search thought, the search goes on with a little less.
#include "tools/search/search_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/check/rules.h"
#include "schedlang/search/exact.h"
#include "schedlang/sim/memory_curve.h"
#include "tools/search/places.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

struct PlacedSearch {
  Plan stages;
  CostModel costs;
  search::Problem problem;
  search::BoundParts bound;
  SearchState state;
  std::vector<LibraryValue> library;
};

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
  if (limits.memory < 0 && limits.activations < 0 && place.costs.capacity > 0 &&
      !place.costs.memory.empty()) {
    limits.memory = place.costs.capacity;
  }
  SL_ASSIGN_OR_RETURN(place.problem, search::ProblemOf(place.stages, place.costs, limits));
  SL_RETURN_IF_ERROR(CheckFits(place, limits));
  place.bound = search::PartsOfBound(place.problem);
  place.state.bound = place.bound.sum();
  search::Evaluator evaluator(place.problem);
  const auto offer = [&](const search::Words& words) {
    if (!search::IsComplete(place.problem, words)) return false;
    place.state.candidates.Offer(&evaluator, words, std::nullopt);
    return true;
  };
  for (const KnownOrders& known : LibraryOrdersOn(place.stages)) {
    if (!offer(known.words)) continue;
    place.library.push_back({known.schedule, search::ValueOf(place.problem, known.words)});
  }
  std::stable_sort(place.library.begin(), place.library.end(),
                   [](const auto& a, const auto& b) { return a.value < b.value; });
  if (index == 0 && request.begin) offer(*request.begin);
  return place;
}

// The bytes that the rank holds at most by the checker's count, less than what it may: the
// overshoot.
int64_t Overshoot(const PlacedSearch& place, const Plan& lowered, int64_t memory) {
  if (memory < 0 || place.costs.memory.empty()) return 0;
  const std::vector<StageSizes> sizes = SizesOfCosts(lowered, place.costs.memory);
  int64_t over = 0;
  for (int r = 0; r < lowered.ranks(); ++r) {
    over = std::max(over, PeakBytesOf(lowered, RankId(r), sizes).bytes - memory);
  }
  return over;
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
    int64_t letters = 0;
    for (const search::StageWork& stage : place->problem.stages) letters += 3 * stage.microbatches;
    if (letters > kMostLetters || place->problem.objective == search::Objective::kPeriod) return;
    SearchBudget moment = WhatIsLeft();
    moment.time_ns /= 8;
    moment.iterations /= 8;
    Search(moment, place);
    SearchState& state = place->state;
    if (stopped_ || state.candidates.empty() || state.IsProven()) return;
    const bool timed = request_.budget.iterations == 0;
    const int64_t nodes = timed ? WhatIsLeft().time_ns / 4 / kNodeNs : WhatIsLeft().iterations / 4;
    const search::Proven proven = search::SolveExactly(
        place->problem, state.candidates.best().score.value, std::min(nodes, kMostNodes));
    search::Evaluator evaluator(place->problem);
    if (!proven.words.empty()) state.candidates.Offer(&evaluator, proven.words, std::nullopt);
    state.bound =
        std::max(state.bound, std::min(proven.bound, state.candidates.best().score.value));
  }

  SearchBudget WhatIsLeft() const {
    SearchBudget budget = request_.budget;
    budget.time_ns = std::max<int64_t>(0, end_ns_ - NowNs());
    if (request_.stages.size() > 1) budget.iterations = (budget.iterations + 1) / 2;
    return budget;
  }

  absl::StatusOr<FoundSchedule> Finish(PlacedSearch* place) {
    constexpr int kTries = 4;
    const int64_t memory = request_.limits.activations >= 0 ? -1
                           : request_.limits.memory >= 0    ? request_.limits.memory
                           : place->costs.memory.empty() || place->costs.capacity == 0
                               ? -1
                               : place->costs.capacity;
    for (int i = 0; i < kTries; ++i) {
      ProveIfSmall(place);
      Search(WhatIsLeft(), place);
      if (place->state.candidates.empty()) {
        return absl::NotFoundError(
            "no order was found that ends within that memory; give more of it, or more time");
      }
      FoundSchedule found;
      found.plan = search::PlanOf(place->stages, place->state.candidates.best().words);
      found.lowered = LoweredPlan(found.plan, CommLayout::kEdge, place->costs.collectives);
      const int64_t over = Overshoot(*place, found.lowered, memory);
      found.memory = memory;
      if (over <= 0) return Simulated(std::move(found), *place);
      for (int64_t& capacity : place->problem.capacity) capacity -= over;
      place->state.candidates = {};
      place->state.rounds = 0;
    }
    return absl::NotFoundError("no order was found whose bytes fit; give more memory");
  }

  absl::StatusOr<FoundSchedule> Simulated(FoundSchedule found, const PlacedSearch& place) {
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
    found.objective = place.problem.objective;
    found.value = search::ValueOf(place.problem, place.state.candidates.best().words);
    found.iterations = place.state.iterations;
    found.library = place.library;
    return found;
  }

  const SearchRequest& request_;
  const WatchSearch& watch_;
  const int64_t end_ns_;
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
