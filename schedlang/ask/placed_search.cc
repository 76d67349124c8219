// The start of a place's search: its split, its recomputing stages, its bound, and known orders. An
// order counts if its bytes fit by the checker's count.
#include "schedlang/ask/placed_search.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "schedlang/ask/free_split.h"
#include "schedlang/ask/judged_orders.h"
#include "schedlang/ask/places.h"
#include "schedlang/ask/recompute_choice.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/lower/lower.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/search/evaluator.h"
#include "schedlang/search/improve.h"
#include "schedlang/search/one_at_a_time.h"

namespace stringline {
namespace {

// The exactness of a count of bytes: as the checker's; or tight only until they fit, and not where
// they cannot; or less tight.
enum class Counting : uint8_t { kExact, kUntilTheyFit, kLoose };

// By rank, the bytes above its limit. Empty if no rank exceeds its limit.
absl::StatusOr<std::vector<int64_t>> OvershootOf(const PlacedSearch& place, const Plan& lowered,
                                                 Counting counting) {
  std::vector<int64_t> most;
  for (int r = 0; r < lowered.ranks(); ++r) most.push_back(place.memory.of(r));
  const std::vector<StageSizes> sizes = SizesOfCosts(lowered, place.costs.memory);
  SL_ASSIGN_OR_RETURN(
      const MemoryPlan memory,
      counting == Counting::kExact
          ? PlanMemoryBeyond(lowered, sizes, most)
          : PlanMemory(lowered, sizes,
                       counting == Counting::kLoose ? Sharing::kAnySize : Sharing::kPacked, most));
  std::vector<int64_t> over;
  for (size_t r = 0; r < most.size(); ++r) {
    over.push_back(most[r] < 0 ? 0 : std::max<int64_t>(0, memory.ranks[r].all() - most[r]));
  }
  if (std::count(over.begin(), over.end(), 0) == lowered.ranks()) over.clear();
  return over;
}

// The same of orders, by the checker's count.
absl::StatusOr<std::vector<int64_t>> Overshoot(const PlacedSearch& place,
                                               const search::Words& words) {
  if (!place.memory.is_given()) return std::vector<int64_t>();
  return OvershootOf(place, LoweredOf(place, words), Counting::kExact);
}

// The bytes above the limits of orders, as shares of the limits, summed over the ranks. Remembers
// the orders that it has counted: a search near one order comes by the same ones again and again.
class ExcessCount {
 public:
  explicit ExcessCount(const PlacedSearch& place) : place_(place) {}

  // 0 for an order that fits by the checker's count; 1 where nothing can be counted.
  double Of(const search::Words& words) {
    uint64_t key = 0;
    for (const std::vector<search::Group>& word : words) {
      for (const search::Group group : word) key = absl::HashOf(key, group.first, group.second);
      key = absl::HashOf(key, word.size());
    }
    const auto [known, is_new] = counted_.try_emplace(key, 0.0);
    if (is_new) known->second = Count(words);
    return known->second;
  }

 private:
  // Packing values tightly takes long, and saves no more than a part of the bytes.
  static constexpr double kMostSaved = 0.2;

  double Count(const search::Words& words) const {
    const Plan lowered = LoweredOf(place_, words);
    double excess = 0;
    for (const Counting counting : {Counting::kLoose, Counting::kUntilTheyFit}) {
      const absl::StatusOr<std::vector<int64_t>> over = OvershootOf(place_, lowered, counting);
      if (!over.ok()) return 1;
      excess = 0;
      for (size_t r = 0; r < over->size(); ++r) {
        const int64_t most = std::max<int64_t>(1, place_.memory.of(static_cast<int>(r)));
        excess += static_cast<double>((*over)[r]) / static_cast<double>(most);
      }
      if (excess <= 0 || excess > kMostSaved) break;
    }
    return excess;
  }

  const PlacedSearch& place_;
  std::unordered_map<uint64_t, double> counted_;
};

// Reduces the ranks' capacities in the search by `over`. False if all were the least already.
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

// The bound, computed in at most a quarter of the time: orders are more useful.
search::BoundParts BoundWithin(const search::Problem& problem, const SearchBudget& budget) {
  const bool is_timed = budget.iterations == 0;
  const Stop over(problem.stop, is_timed ? NowNs() + budget.time_ns / 4 : Stop::kNever);
  search::Problem bounded = problem;
  bounded.stop = &over;
  return search::PartsOfBound(bounded);
}

// The orders with an I and its W in place of each B, or with a B in place of each I and no W.
search::Words WithSplitBackwards(const search::Words& words) {
  search::Words split(words.size());
  for (size_t r = 0; r < words.size(); ++r) {
    for (search::Group group : words[r]) {
      search::Letter& back = group.is_pair() ? group.second : group.first;
      const bool is_whole = search::KindOf(back) == ActionKind::kBackward;
      const int stage = search::StageOf(back);
      if (is_whole) back = search::LetterOf(ActionKind::kInputGradient, stage);
      split[r].push_back(group);
      if (is_whole) split[r].push_back({search::LetterOf(ActionKind::kWeightGradient, stage)});
    }
  }
  return split;
}
search::Words WithWholeBackwards(const search::Words& words) {
  search::Words whole(words.size());
  for (size_t r = 0; r < words.size(); ++r) {
    for (search::Group group : words[r]) {
      search::Letter& back = group.is_pair() ? group.second : group.first;
      if (search::KindOf(back) == ActionKind::kWeightGradient) continue;
      if (search::KindOf(back) == ActionKind::kInputGradient) {
        back = search::LetterOf(ActionKind::kBackward, search::StageOf(back));
      }
      whole[r].push_back(group);
    }
  }
  return whole;
}

// The layers of stages, and which stages recompute, if a search may choose them.
struct SplitChoice {
  Plan stages;
  search::Words words;  // found with the layers; empty: none
  int64_t bound = 0;    // of all ways to share the layers out, if they may be chosen
  RecomputeChoice recompute;
};

// Layers are chosen first where all stages recompute that may; then each choice is made anew beside
// the other, while that gains, within about half of the budget.
absl::StatusOr<SplitChoice> ChooseLayersAndRecompute(const SearchRequest& request,
                                                     const StepCosts& costs, const Plan& stages,
                                                     const SearchBudget& budget, double room) {
  constexpr int kMostTurns = 4;
  constexpr double kLessRoom = 0.93;
  SplitChoice choice{.stages = stages};
  search::Found split;
  if (request.any_split) {
    SL_ASSIGN_OR_RETURN(split, ChooseSplit(request, costs, stages, budget, room));
    choice.stages = WithPartition(stages, split.partition);
    choice.words = split.words;
    choice.bound = split.bound;
  }
  SL_ASSIGN_OR_RETURN(choice.recompute, ChooseRecompute(request, costs, choice.stages, budget));
  if (!request.any_split || !choice.recompute.is_one_of_many) return choice;
  SearchBudget part = budget;
  part.iterations = (budget.iterations + kMostTurns - 1) / kMostTurns;
  const int64_t end_ns = NowNs() + budget.time_ns / 2;
  for (int i = 0; i < kMostTurns && !choice.recompute.words.empty(); ++i) {
    part.time_ns = end_ns - NowNs();
    if (IsWished(request.stop) || part.time_ns <= 0) break;
    search::Found before = {.words = choice.recompute.words,
                            .value = choice.recompute.score.value,
                            .partition = choice.stages.split.layers,
                            .recomputes = choice.recompute.stages};
    SL_ASSIGN_OR_RETURN(split, ChooseSplit(request, costs, stages, part, room, std::move(before)));
    if (split.partition == choice.stages.split.layers) break;
    const Plan other = WithPartition(stages, split.partition);
    RecomputeChoice begin = choice.recompute;
    begin.words = std::move(split.words);
    SL_ASSIGN_OR_RETURN(RecomputeChoice again, ChooseRecompute(request, costs, other, part, begin));
    if (again.score < choice.recompute.score) {
      choice.stages = other;
      choice.recompute = std::move(again);
    } else {
      room *= kLessRoom;
    }
  }
  return choice;
}

// Takes orders to begin with; their value if they fit and end.
std::optional<int64_t> TakeKnown(const search::Words& words, PlacedSearch* place) {
  if (!search::IsComplete(place->problem, words)) return std::nullopt;
  place->begin.push_back(words);
  const absl::StatusOr<std::vector<int64_t>> over = Overshoot(*place, words);
  search::Evaluator evaluator(place->problem);
  if (!over.ok() || !over->empty() || !evaluator.Load(words)) return std::nullopt;
  search::Candidate known{words, evaluator.base(), std::nullopt};
  if (known.score < place->fitting.score) place->fitting = known;
  const int64_t value = Judge(std::move(known), place);
  if (value >= search::kNoLimit) return std::nullopt;  // ranks wait for each other
  return value;
}

// The library's orders, and the one that is given; and what they are worth. An order whose actions
// or memory the problem does not have may begin the search with its backwards split, or whole.
void AddKnownOrders(const SearchRequest& request, size_t index, PlacedSearch* place) {
  for (KnownOrders& known : LibraryOrdersOn(place->stages, request.stop)) {
    if (IsWished(request.stop)) break;
    if (!search::IsComplete(place->problem, known.words)) {
      OfferKnown(WithSplitBackwards(known.words), place);
      OfferKnown(WithWholeBackwards(known.words), place);
    }
    const std::optional<int64_t> value = TakeKnown(known.words, place);
    if (!value) continue;
    place->library.push_back({known.schedule, *value});
  }
  std::stable_sort(place->library.begin(), place->library.end(),
                   [](const auto& a, const auto& b) { return a.value < b.value; });
  if (index == 0 && request.begin) OfferKnown(*request.begin, place);
}

}  // namespace

absl::Status CheckFits(const search::Problem& problem, const search::Limits& limits) {
  for (int r = 0; r < problem.ranks; ++r) {
    const int64_t least = search::LeastCapacity(problem, r);
    const int64_t capacity = problem.capacity[static_cast<size_t>(r)];
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

Plan LoweredOf(const PlacedSearch& place, const search::Words& words) {
  return LoweredPlan(search::PlanOf(place.stages, words), CommLayout::kEdge,
                     place.costs.collectives);
}

absl::StatusOr<PlacedProblem> PlacedProblemOf(const SearchRequest& request, const StepCosts& costs,
                                              const Plan& stages,
                                              const std::vector<int64_t>& recomputes) {
  SL_ASSIGN_OR_RETURN(PlacedProblem placed, ProblemWithin(request, costs, stages, recomputes));
  SL_RETURN_IF_ERROR(CheckFits(placed.problem, placed.limits));
  return placed;
}

absl::StatusOr<PlacedProblem> ProblemWithin(const SearchRequest& request, const StepCosts& costs,
                                            const Plan& stages,
                                            const std::vector<int64_t>& recomputes) {
  PlacedProblem placed{.limits = request.limits};
  StepCosts step = costs;
  if (!recomputes.empty()) step.spec.values["recompute"] = recomputes;
  SL_ASSIGN_OR_RETURN(placed.costs, ResolveCosts(step, stages));
  search::Limits& limits = placed.limits;
  if (limits.activations < 0 && (request.memory.is_given() || !placed.costs.memory.empty())) {
    SL_ASSIGN_OR_RETURN(placed.memory,
                        MemoryLimitOf(request.memory, &placed.costs, stages.ranks()));
    for (int r = 0; r < stages.ranks() && placed.memory.is_given(); ++r) {
      limits.memory.push_back(placed.memory.of(r));
    }
  }
  SL_ASSIGN_OR_RETURN(placed.problem, search::ProblemOf(stages, placed.costs, limits));
  placed.problem.stop = request.stop;
  return placed;
}

absl::StatusOr<PlacedSearch> PreparePlace(const SearchRequest& request, size_t index,
                                          const SearchBudget& budget, double split_room) {
  PlacedSearch place{.stages = request.stages[index]};
  if (index < request.places.size()) place.word = request.places[index];
  SL_ASSIGN_OR_RETURN(const StepCosts costs, FindCosts(request.costs));
  SL_ASSIGN_OR_RETURN(SplitChoice split,
                      ChooseLayersAndRecompute(request, costs, place.stages, budget, split_room));
  place.stages = std::move(split.stages);
  RecomputeChoice& choice = split.recompute;
  place.recomputes = std::move(choice.stages);
  place.is_part = choice.is_one_of_many;
  SL_ASSIGN_OR_RETURN(PlacedProblem placed,
                      PlacedProblemOf(request, costs, place.stages, place.recomputes));
  place.costs = std::move(placed.costs);
  place.memory = std::move(placed.memory);
  place.problem = std::move(placed.problem);
  place.capacity = place.problem.capacity;
  if (request.goal.IsBeyondSearch(place.costs)) {
    StepCosts step = costs;
    if (!place.recomputes.empty()) step.spec.values["recompute"] = place.recomputes;
    const Plan plan = search::PlanOf(place.stages, search::OneAtATime(place.problem));
    SL_ASSIGN_OR_RETURN(CostModel priced, CostsOfGoal(step, plan, request.goal, request.jitter));
    place.value.emplace(request.goal, place.stages, std::move(priced), place.problem);
  }
  for (const search::Words& words : {split.words, choice.words}) OfferKnown(words, &place);
  AddKnownOrders(request, index, &place);
  BeginAnew(&place);
  place.bound = choice.is_one_of_many ? choice.bound : BoundWithin(place.problem, budget);
  place.state.bound = place.bound.sum();
  if (request.any_split) {
    place.is_part = true;
    place.state.bound = split.bound;
  }
  if (place.value) FindLeast(budget, &place);
  return place;
}

std::function<double(const search::Words& words)> ExcessOf(const PlacedSearch& place) {
  if (!place.memory.is_given()) return nullptr;
  return [count = std::make_shared<ExcessCount>(place)](const search::Words& words) {
    return count->Of(words);
  };
}

void BeginAnew(PlacedSearch* place) {
  const search::Candidates before = std::exchange(place->state.candidates, {});
  place->state.rounds = 0;
  search::Evaluator evaluator(place->problem);
  for (const search::Words& words : place->begin) {
    if (IsWished(place->problem.stop) && !place->state.candidates.empty()) break;
    if (!search::IsComplete(place->problem, words)) continue;
    place->state.candidates.Offer(&evaluator, words, std::nullopt);
  }
  for (const search::Candidate& candidate : before.all()) {
    if (search::IsComplete(place->problem, candidate.words)) {
      place->state.candidates.Offer(candidate);
    }
  }
}

bool OfferKnown(const search::Words& words, PlacedSearch* place) {
  return TakeKnown(words, place).has_value();
}

absl::StatusOr<bool> TakeWhatFits(PlacedSearch* place) {
  std::vector<int64_t> over;  // for the best of all
  for (const search::Candidate& candidate : place->state.candidates.all()) {
    if (!(candidate.score < place->fitting.score)) break;
    SL_ASSIGN_OR_RETURN(std::vector<int64_t> beyond, Overshoot(*place, candidate.words));
    if (beyond.empty()) {
      place->fitting = candidate;
      Judge(candidate, place);
      break;
    }
    if (over.empty()) {
      over = std::move(beyond);
      place->beyond = candidate.words;
    }
  }
  const bool is_none = place->value ? place->judged.empty() : place->fitting.words.empty();
  if (is_none) OfferKnown(search::OneAtATime(place->problem), place);
  if (!over.empty() && Shrink(over, place)) {
    place->is_part = true;
    BeginAnew(place);
  }
  return over.empty();
}

void ImproveWhatFits(const SearchBudget& budget, PlacedSearch* place) {
  constexpr int kSeeds = 4;
  constexpr double kHeats[kSeeds] = {0.1, 0.1, 1.0, 1.0};
  constexpr int64_t kMostLetters = 4'000, kTrials = 100'000;
  constexpr int64_t kFewLetters = 120, kFewTrials = 1'000;
  if (place->fitting.words.empty() || place->fitting.score.value <= place->state.bound) return;
  if (search::LettersOf(place->problem) > kMostLetters) return;
  const bool is_timed = budget.iterations == 0;
  const Stop over(place->problem.stop, is_timed ? NowNs() + budget.time_ns : Stop::kNever);
  search::Problem problem = place->problem;
  problem.capacity = place->capacity;
  problem.stop = &over;
  // Many trials of a small problem take but a moment.
  const int64_t least = search::LettersOf(problem) <= kFewLetters ? kFewTrials : 1;
  const int64_t trials = is_timed ? kTrials : std::max(least, budget.iterations / kSeeds);
  std::vector<search::Improved> found(kSeeds);
  OnAllCores(kSeeds, [&](int i) {
    const search::Judgement limit = {
        .excess = ExcessOf(*place), .best = place->fitting.score, .value = nullptr};
    const uint64_t seed = SeedOf(budget, place->state.iterations + i);
    const search::Words& words =
        i % 2 == 1 && !place->beyond.empty() ? place->beyond : place->fitting.words;
    found[static_cast<size_t>(i)] =
        search::Improve(problem, words, trials, kHeats[i], place->state.bound, seed, &limit);
  });
  for (search::Improved& improved : found) {
    place->state.iterations += improved.trials;
    if (!(improved.score < place->fitting.score)) continue;
    place->fitting = {std::move(improved.words), improved.score, std::nullopt};
    Judge(place->fitting, place);
  }
}

}  // namespace stringline
