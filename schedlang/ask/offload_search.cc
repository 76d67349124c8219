// A choice is valued by short searches of its problem, for several shares of what its stages keep
// on the device: too small a share gives orders whose copies do not fit in or delay the step, too
// large a share gives orders that need none.
#include "schedlang/ask/offload_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/placed_search.h"
#include "schedlang/ask/placed_work.h"
#include "schedlang/ask/places.h"
#include "schedlang/ask/true_value.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/recompute.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/one_at_a_time.h"
#include "schedlang/search/recompute.h"

namespace stringline {
namespace {

using search::Words;

// An order with its choices and its plan.
struct Best {
  std::vector<int64_t> choices;
  Words words;
  std::optional<PlacedWork> work;

  WorkScore score() const { return work ? work->score : WorkScore{}; }
  int64_t value() const { return score().value; }
};

// The recomputing stages where nothing else is asked.
absl::StatusOr<std::vector<int64_t>> RecomputesOfCosts(const StepCosts& costs, const Plan& stages) {
  SL_ASSIGN_OR_RETURN(std::vector<int64_t> recomputes, RecomputedStages(costs.spec, stages));
  recomputes.resize(stages.stages.size(), 0);
  return recomputes;
}

// By stage, its allowed choices.
absl::StatusOr<std::vector<std::vector<int64_t>>> ChoicesOf(const SearchRequest& request,
                                                            const StepCosts& costs,
                                                            const Plan& stages) {
  SL_ASSIGN_OR_RETURN(std::vector<int64_t> recomputes, RecomputesOfCosts(costs, stages));
  const bool any = request.recompute == SearchRecompute::kAny;
  if (request.recompute == SearchRecompute::kAll || any) {
    std::fill(recomputes.begin(), recomputes.end(), search::kRecomputes);
  } else if (request.recompute == SearchRecompute::kNone) {
    std::fill(recomputes.begin(), recomputes.end(), search::kKeeps);
  }
  std::vector<std::vector<int64_t>> choices;
  for (const int64_t own : recomputes) {
    std::vector<int64_t> of =
        any ? std::vector<int64_t>{search::kKeeps, own} : std::vector<int64_t>{own};
    std::vector<int64_t>& all = choices.emplace_back();
    if (request.offload != SearchOffload::kAll) all = of;
    for (const int64_t choice : of) {
      if (request.offload != SearchOffload::kNone) all.push_back(choice | search::kOffloads);
    }
  }
  return choices;
}

// Offloading stages hold this share between F and B.
void HoldShares(const Plan& stages, const std::vector<int64_t>& choices, double share,
                PlacedProblem* placed) {
  for (size_t s = 0; s < choices.size() && placed->memory.is_given(); ++s) {
    if ((choices[s] & search::kOffloads) == 0) continue;
    const StageId stage(static_cast<int32_t>(s));
    search::HoldShare(search::HeldOf(stages, placed->costs.memory, stage), share,
                      &placed->problem.stages[s]);
  }
}

// The searches of one place, with copies.
class OffloadSearch {
 public:
  OffloadSearch(const SearchRequest& request, const StepCosts& costs, const Plan& stages,
                std::vector<std::vector<int64_t>> choices, const WatchSearch& watch)
      : request_(request),
        costs_(costs),
        stages_(stages),
        choices_(std::move(choices)),
        watch_(watch),
        end_ns_(NowNs() + request.budget.time_ns),
        over_(request.stop, request.budget.iterations == 0 ? end_ns_ : Stop::kNever) {
    request_.stop = &over_;
  }

  // Betters `best`, beginning with these orders, too.
  absl::Status Run(std::vector<Words> begin, int64_t bound, Best* best) {
    begin_ = std::move(begin);
    if (!best->words.empty()) begin_.push_back(best->words);
    // An equal plan counts, too: it may need fewer stages.
    below_ = best->score();
    ++below_.copies;
    const search::RecomputeTrial trial = search::ClimbRecomputes(
        static_cast<int>(choices_.size()),
        {.value = [this](const auto& choices, const auto& words,
                         int64_t /*moves*/) { return Value(choices, words); },
         .all = OnAllCores,
         .goes_on = [this](int64_t spent) { return GoesOn(spent); },
         .choices = choices_});
    if (!trial.words.empty()) SL_RETURN_IF_ERROR(Place(trial.stages, {trial.words}, best));
    const std::vector<int64_t> choices = best->work ? best->choices : trial.stages;
    return Deepen(choices, bound, best);
  }

  int64_t iterations() const { return iterations_; }

 private:
  bool GoesOn(int64_t spent) const {
    const SearchBudget& budget = request_.budget;
    if (over_.IsWished()) return false;
    return budget.iterations > 0 ? spent < budget.iterations / 2
                                 : NowNs() < end_ns_ - budget.time_ns / 2;
  }

  // The optimiser's problem in which offloading stages hold a share between F and B.
  absl::StatusOr<search::Problem> ProblemOf(const std::vector<int64_t>& choices,
                                            double share) const {
    SL_ASSIGN_OR_RETURN(
        PlacedProblem placed,
        ProblemWithin(request_, costs_, stages_, search::StagesThat(search::kRecomputes, choices)));
    HoldShares(stages_, choices, share, &placed);
    return std::move(placed.problem);
  }

  static bool HasCopies(const std::vector<int64_t>& choices) {
    return search::HasAny(search::StagesThat(search::kOffloads, choices));
  }

  // Orders to begin with that fit the problem.
  search::Candidates Beginning(const search::Problem& problem, const Words& further) const {
    std::vector<Words> orders = begin_;
    orders.push_back(further);
    return search::BeginWith(problem, orders);
  }

  // Values a choice by its best plan; kNoLimit if none was found.
  search::RecomputeTrial Value(const search::Recomputes& choices, const Words& begin) const {
    search::RecomputeTrial trial{.stages = choices};
    std::vector<search::Candidate> tried;
    for (const double share : {0.0, 0.5}) {
      if (share > 0 && !HasCopies(choices)) break;
      const absl::StatusOr<search::Problem> problem = ProblemOf(choices, share);
      if (!problem.ok() || !search::CanBeKept(*problem)) continue;
      search::Candidates candidates = Beginning(*problem, begin);
      search::SearchShortly(*problem, search::kShortMoves, request_.budget.seed, &candidates);
      const auto& all = candidates.all();
      const size_t most = std::min<size_t>(all.size(), 2);
      tried.insert(tried.end(), all.begin(), all.begin() + static_cast<ptrdiff_t>(most));
      const Words least = search::OneAtATime(*problem);
      if (tried.empty()) tried.push_back({least, {search::ValueOf(*problem, least), 0}, {}});
    }
    std::stable_sort(tried.begin(), tried.end(),
                     [](const auto& a, const auto& b) { return a.score < b.score; });
    const auto placer = WorkPlacer::For(request_, costs_, stages_, choices);
    if (!placer.ok()) return trial;
    for (const search::Candidate& candidate : tried) {
      const WorkScore own = {trial.score.value, 0};
      const auto work =
          placer->Place(candidate.words, std::min(own, below_), WorkPlacer::Effort::kQuick);
      if (!work) continue;
      trial.score.value = work->score.value;
      trial.words = candidate.words;
    }
    return trial;
  }

  absl::Status Place(const std::vector<int64_t>& choices, const std::vector<Words>& orders,
                     Best* best) const {
    SL_ASSIGN_OR_RETURN(const WorkPlacer placer,
                        WorkPlacer::For(request_, costs_, stages_, choices));
    for (const Words& words : orders) {
      auto work = placer.Place(words, best->score(), WorkPlacer::Effort::kWhole);
      if (work) *best = {choices, words, std::move(work)};
    }
    return absl::OkStatus();
  }

  // Searches the choice with what is left of the budget.
  absl::Status Deepen(const std::vector<int64_t>& choices, int64_t bound, Best* best) {
    constexpr double kShares[] = {0.0, 0.25, 0.5, 0.75};
    int64_t left = HasCopies(choices) ? 4 : 1;
    for (const double share : kShares) {
      if (left == 0 || best->value() <= bound) break;
      SearchBudget budget = request_.budget;
      budget.time_ns = std::max<int64_t>(0, end_ns_ - NowNs()) / left;
      budget.iterations = budget.iterations / 2 / (HasCopies(choices) ? 4 : 1);
      if (request_.budget.iterations > 0 && budget.iterations == 0) budget.iterations = 1;
      --left;
      const absl::StatusOr<search::Problem> problem = ProblemOf(choices, share);
      if (!problem.ok() || !search::CanBeKept(*problem)) continue;
      SearchState state{.candidates = Beginning(*problem, best->words), .bound = bound};
      SearchInRounds(
          *problem, budget,
          [&](const SearchState&) {
            if (over_.IsWished()) return false;
            const int64_t value = best->work ? best->value() : 0;
            watch_({value, bound, static_cast<double>(end_ns_ - NowNs()) / 1e9});
            return true;
          },
          &state);
      iterations_ += state.iterations;
      std::vector<Words> orders;
      for (const search::Candidate& candidate : state.candidates.all()) {
        if (candidate.score.value <= best->value()) orders.push_back(candidate.words);
      }
      SL_RETURN_IF_ERROR(Place(choices, orders, best));
    }
    return absl::OkStatus();
  }

  SearchRequest request_;
  const StepCosts& costs_;
  const Plan& stages_;
  const std::vector<std::vector<int64_t>> choices_;
  const WatchSearch& watch_;
  const int64_t end_ns_;
  const Stop over_;
  std::vector<Words> begin_;
  WorkScore below_;  // only better plans count
  int64_t iterations_ = 0;
};

// A relaxation of every choice: stages as quick as without recomputing, and at every moment the
// least of all memories.
absl::StatusOr<search::BoundParts> BoundOfAll(const SearchRequest& request, const StepCosts& costs,
                                              const Plan& stages,
                                              const std::vector<std::vector<int64_t>>& choices) {
  const size_t count = stages.stages.size();
  SearchRequest unlimited = request;
  if (request.memory.is_given()) unlimited.memory = std::numeric_limits<int64_t>::max() / 8;
  SL_ASSIGN_OR_RETURN(
      PlacedProblem relaxed,
      ProblemWithin(unlimited, costs, stages, std::vector<int64_t>(count, search::kKeeps)));
  for (size_t k = 0; k < choices[0].size(); ++k) {
    std::vector<int64_t> alike;
    for (const std::vector<int64_t>& of : choices) alike.push_back(of[k]);
    SL_ASSIGN_OR_RETURN(
        PlacedProblem placed,
        ProblemWithin(request, costs, stages, search::StagesThat(search::kRecomputes, alike)));
    HoldShares(stages, alike, 0, &placed);
    relaxed.problem = search::WithEitherChoice(std::move(relaxed.problem), placed.problem);
  }
  const bool is_timed = request.budget.iterations == 0;
  const Stop over(request.stop, is_timed ? NowNs() + request.budget.time_ns / 8 : Stop::kNever);
  relaxed.problem.stop = &over;
  SL_RETURN_IF_ERROR(CheckFits(relaxed.problem, relaxed.limits));
  return search::PartsOfBound(relaxed.problem);
}

// The bound on values, from one by the optimiser's count of time for every choice.
absl::StatusOr<int64_t> LeastOfAll(const SearchRequest& request, const StepCosts& costs,
                                   const Plan& stages, int64_t bound) {
  SL_ASSIGN_OR_RETURN(const PlacedProblem placed,
                      ProblemWithin(request, costs, stages,
                                    std::vector<int64_t>(stages.stages.size(), search::kKeeps)));
  const Plan plan = search::PlanOf(stages, search::OneAtATime(placed.problem));
  SL_ASSIGN_OR_RETURN(CostModel priced, CostsOfGoal(costs, plan, request.goal, request.jitter));
  const TrueValue value(request.goal, stages, std::move(priced), placed.problem);
  return value.BoundFrom(bound, true, request.stop);
}

// The same plan with fewer copies, where that is no longer: only those that limits ask for, and of
// fewer stages.
absl::Status Thin(const SearchRequest& request, const StepCosts& costs, const Plan& stages,
                  Best* best) {
  for (size_t k = 0; k <= best->choices.size() && best->score().copies > 0; ++k) {
    std::vector<int64_t> choices = best->choices;  // first as they are
    if (k > 0 && (choices[k - 1] & search::kOffloads) == 0) continue;
    if (k > 0) choices[k - 1] -= search::kOffloads;
    SL_ASSIGN_OR_RETURN(const WorkPlacer placer, WorkPlacer::For(request, costs, stages, choices));
    auto work = placer.Place(best->words, best->score(), WorkPlacer::Effort::kWhole);
    if (work) *best = {choices, best->words, std::move(work)};
  }
  return absl::OkStatus();
}

std::vector<int> NumbersOf(const std::vector<int64_t>& stages) {
  std::vector<int> numbers;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s] == 1) numbers.push_back(static_cast<int>(s));
  }
  return numbers;
}

// Puts the plan of `best` into `found`, checked and simulated.
absl::Status Answer(const SearchRequest& request, const StepCosts& costs, const Best& best,
                    FoundSchedule* found) {
  found->plan = best.work->plan;
  found->goal = request.goal;
  found->value = best.work->score.value;
  StepCosts step = costs;
  const std::vector<int64_t> recomputes = search::StagesThat(search::kRecomputes, best.choices);
  step.spec.values["recompute"] = recomputes;
  SL_ASSIGN_OR_RETURN(found->costs, ResolveCosts(step, found->plan));
  found->lowered = LoweredPlan(found->plan, CommLayout::kEdge, found->costs.collectives);
  SL_RETURN_IF_ERROR(SimulateFound(request, found));
  found->recomputing = NumbersOf(recomputes);
  std::vector<int64_t> remaking(recomputes.size(), 0), offloading(recomputes.size(), 0);
  for (const Action& action : found->plan.actions) {
    const auto s = static_cast<size_t>(action.stage.value);
    if (action.kind == ActionKind::kRecompute) remaking[s] = 1;
    if (action.kind == ActionKind::kOffload) offloading[s] = 1;
  }
  found->remaking = NumbersOf(remaking);
  found->offloading = NumbersOf(offloading);
  SL_ASSIGN_OR_RETURN(CountedBytes bytes, CountBytes(found->lowered, found->costs));
  found->bytes = std::move(bytes.ranks);
  found->host_bytes = std::move(bytes.hosts);
  return absl::OkStatus();
}

// The budget of one of several searches; with iterations each has all of them.
SearchRequest WithShare(SearchRequest request, SearchOffload offload, double share) {
  request.offload = offload;
  request.budget.time_ns =
      static_cast<int64_t>(share * static_cast<double>(request.budget.time_ns));
  return request;
}

std::vector<int64_t> ChoicesOfFound(const FoundSchedule& found) {
  std::vector<int64_t> choices(found.plan.stages.size(), search::kKeeps);
  for (const int s : found.recomputing) choices[static_cast<size_t>(s)] = search::kRecomputes;
  return choices;
}

// A plain search, and then R where they stand better ahead of the gradients.
absl::StatusOr<FoundSchedule> SearchPlainly(const SearchRequest& request, const StepCosts& costs,
                                            const PlainSearch& plain) {
  SL_ASSIGN_OR_RETURN(FoundSchedule found, plain(request));
  if (found.recomputing.empty() || request.recompute != SearchRecompute::kAny) return found;
  Best best{.choices = ChoicesOfFound(found), .words = {}, .work = std::nullopt};
  SL_ASSIGN_OR_RETURN(best.words, search::WordsOf(found.plan));
  const Plan stages = found.plan;
  SL_ASSIGN_OR_RETURN(const WorkPlacer placer,
                      WorkPlacer::For(request, costs, stages, best.choices));
  best.work = placer.Place(best.words, {found.value, 0}, WorkPlacer::Effort::kWhole);
  if (best.work) SL_RETURN_IF_ERROR(Answer(request, costs, best, &found));
  return found;
}

// A question about copies, and what all its searches have in common.
struct Asked {
  const SearchRequest& request;
  const StepCosts& costs;
  const Plan& stages;
  const WatchSearch& watch;
  std::vector<Words> begin;
  int64_t bound = 0;
  int64_t end_ns = 0;
  bool has_limit = false;  // of bytes; without one copies gain nothing
};

// One of several searches, with its share of the time that is left.
struct Part {
  SearchOffload offload = SearchOffload::kAny;
  bool remakes = true;  // stages may recompute, if the question lets them
  double share = 1;
};

absl::StatusOr<int64_t> SearchPart(const Asked& asked, const Part& part, Best* best) {
  const SearchRequest& request = asked.request;
  const auto all_ns = static_cast<double>(std::max<int64_t>(1, request.budget.time_ns));
  const auto left_ns = static_cast<double>(std::max<int64_t>(0, asked.end_ns - NowNs()));
  SearchRequest own = WithShare(request, part.offload, part.share * left_ns / all_ns);
  if (!part.remakes) own.recompute = SearchRecompute::kNone;
  SL_ASSIGN_OR_RETURN(auto choices, ChoicesOf(own, asked.costs, asked.stages));
  OffloadSearch search(own, asked.costs, asked.stages, std::move(choices), asked.watch);
  SL_RETURN_IF_ERROR(search.Run(asked.begin, asked.bound, best));
  return search.iterations();
}

// Betters `best` by searches with copies; returns their iterations. The last goes on from the best,
// the others begin by themselves.
absl::StatusOr<int64_t> SearchParts(const Asked& asked, Best* best) {
  const bool any = asked.request.offload == SearchOffload::kAny;
  std::vector<Part> parts = {{SearchOffload::kAll, true, any ? 0.2 : 1}};
  if (any && asked.request.recompute == SearchRecompute::kAny) {
    parts.push_back({SearchOffload::kAny, false, 0.4});
  }
  if (any) parts.push_back({SearchOffload::kAny, true, 1});
  int64_t iterations = 0;
  for (const Part& part : parts) {
    if (any && (!asked.has_limit || best->value() <= asked.bound)) break;
    Best of_part;
    if (any && part.share == 1) of_part = *best;
    SL_ASSIGN_OR_RETURN(const int64_t more, SearchPart(asked, part, &of_part));
    iterations += more;
    if (of_part.score() < best->score()) *best = std::move(of_part);
  }
  if (any && best->work) {
    SL_RETURN_IF_ERROR(Thin(asked.request, asked.costs, asked.stages, best));
  }
  return iterations;
}

// With copies, if the question asks for any.
absl::StatusOr<FoundSchedule> SearchCopies(const SearchRequest& request, const StepCosts& costs,
                                           const WatchSearch& watch, const PlainSearch& plain) {
  constexpr double kPlainShare = 0.35;
  const Plan& stages = request.stages[0];
  const int64_t end_ns = NowNs() + request.budget.time_ns;
  SL_ASSIGN_OR_RETURN(const auto choices, ChoicesOf(request, costs, stages));
  // The time of a copy, and limits, are looked at before any search.
  std::vector<int64_t> alike;
  for (const std::vector<int64_t>& of : choices) alike.push_back(of.back());
  SL_ASSIGN_OR_RETURN(const WorkPlacer placer, WorkPlacer::For(request, costs, stages, alike));
  FoundSchedule found;
  Best best;
  if (request.offload == SearchOffload::kAny) {
    const absl::StatusOr<FoundSchedule> without =
        SearchPlainly(WithShare(request, SearchOffload::kNone, kPlainShare), costs, plain);
    if (without.ok()) {
      found = *without;
      best = {ChoicesOfFound(found), WordsWithoutWork(found.plan),
              PlacedWork{found.plan, {found.value, 0}}};
    }
  }
  SL_ASSIGN_OR_RETURN(const search::BoundParts bound, BoundOfAll(request, costs, stages, choices));
  Asked asked{request, costs, stages, watch, {}, bound.sum(), end_ns, placer.memory().is_given()};
  for (KnownOrders& known : LibraryOrdersOn(stages, request.stop)) {
    asked.begin.push_back(std::move(known.words));
  }
  if (request.begin) asked.begin.push_back(*request.begin);
  SL_ASSIGN_OR_RETURN(const int64_t iterations, SearchParts(asked, &best));
  if (!best.work) {
    return absl::NotFoundError(
        "no order was found whose bytes fit, with copies to the host either; give more memory");
  }
  found.iterations += iterations;
  found.place = request.places.empty() ? "" : request.places[0];
  if (!found.place.empty()) found.places = {found.place};
  found.memory = placer.memory();
  found.host = placer.host();
  SL_RETURN_IF_ERROR(Answer(request, costs, best, &found));
  found.bound = bound;
  SL_ASSIGN_OR_RETURN(found.least, LeastOfAll(request, costs, stages, bound.sum()));
  return found;
}

}  // namespace

absl::StatusOr<FoundSchedule> SearchWork(const SearchRequest& request, const WatchSearch& watch,
                                         const PlainSearch& plain) {
  SL_ASSIGN_OR_RETURN(const StepCosts costs, FindCosts(request.costs));
  absl::StatusOr<FoundSchedule> found = request.offload == SearchOffload::kNone
                                            ? SearchPlainly(request, costs, plain)
                                            : SearchCopies(request, costs, watch, plain);
  if (found.ok()) found->asked = costs;
  return found;
}

}  // namespace stringline
