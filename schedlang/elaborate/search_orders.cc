// Before the search, each rank's limit is compared with the least capacity of any order. The result
// is written into the plan: orders, and the places and layers of stages, if free.
#include "schedlang/elaborate/search_orders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/search_copies.h"
#include "schedlang/elaborate/search_places.h"
#include "schedlang/elaborate/search_problem.h"
#include "schedlang/search/kept_orders.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/search/recompute.h"
#include "schedlang/search/search.h"

namespace stringline {
namespace {

using search::Partitioning;
using search::Problem;

// About a second on a core, and a few seconds if more than orders is free. For many letters a
// second would be little more than the plain rules, so up to twenty are allowed.
constexpr int64_t kMostByDefault = 200'000;
constexpr int64_t kEnoughByDefault = 4'000;
constexpr int64_t kLettersOfASecond = 130'000'000;
constexpr int64_t kMoreForChoice = 4;

int64_t DefaultIterations(const Problem& problem) {
  const int64_t in_a_second =
      kLettersOfASecond / std::max<int64_t>(1, search::LettersOf(problem)) + 1;
  const int64_t least = std::min(kEnoughByDefault, 20 * in_a_second);
  return std::clamp(in_a_second, least, kMostByDefault);
}

// False after a finding.
bool IsSmallEnough(const SearchPlace& place, const OrderRules& rules, Diagnostics* diagnostics) {
  std::string why = search::WhyTooLarge(place.plan);
  if (why.empty()) return true;
  diagnostics->Add(Code::kTooLong, rules.span, std::move(why)).where = PrintParameters(place.plan);
  return false;
}

// Adds a finding for every rank whose limit allows no order.
void FindLimits(const Problem& problem, const OrderRules& rules, const Plan& plan,
                Diagnostics* diagnostics) {
  for (int r = 0; r < problem.ranks; ++r) {
    const int64_t most = problem.capacity[static_cast<size_t>(r)];
    const int64_t needs = search::LeastCapacity(problem, r);
    if (needs <= most) continue;
    const std::string limit = rules.search.in_memory
                                  ? absl::StrCat("memory ", most)
                                  : absl::StrCat(most, most == 1 ? " activation" : " activations");
    diagnostics
        ->Add(Code::kNoOrder, rules.search.most_span,
              absl::StrCat("no order exists within ", limit, " on rank ", r, ": it needs ", needs))
        .where = PrintParameters(plan);
  }
}

// The places with an order. Empty after findings.
std::vector<SearchPlace> UsablePlaces(const OrderRules& rules, const SplitStep* split,
                                      const Plan& plan, Diagnostics* diagnostics) {
  std::vector<SearchPlace> usable;
  const std::vector<SearchPlace> places = PlacesOf(rules, split, plan, diagnostics);
  for (const SearchPlace& place : places) {
    if (!IsSmallEnough(place, rules, diagnostics)) return {};
    const Problem problem = PartitioningOf(rules, place).problem_of(place.partition);
    if (search::CanBeKept(problem)) usable.push_back(place);
  }
  if (usable.empty() && !places.empty()) {
    const SearchPlace& first = places.front();
    FindLimits(PartitioningOf(rules, first).problem_of(first.partition), rules, plan, diagnostics);
  }
  return usable;
}

// Puts the orders into the plan, with the places of the block's kinds.
void FillOrders(const OrderRules& rules, const SearchPlace& place, Plan ordered,
                const search::Found& found, const search::Recomputes& recomputes, Plan* plan) {
  for (Action& action : ordered.actions) {
    const auto named = rules.places.find(action.kind);
    action.place = named == rules.places.end() ? rules.place : named->second;
  }
  plan->stages = std::move(ordered.stages);
  plan->graph = std::move(ordered.graph);
  if (rules.search.counts_layers) {
    plan->split.kind = Split::Kind::kLayers;
    plan->split.layers = found.partition;
    plan->split.layout.clear();
  }
  plan->first = std::move(ordered.first);
  plan->actions = std::move(ordered.actions);
  plan->costs = SearchProblem(rules, place.plan).CostsOf(found.partition);
  plan->recompute = search::RecomputeOfPlan(recomputes);
  plan->searched = {rules.search.objective, found.value, found.bound};
  FindRemaking(plan);
}

// The same search where stages may copy to the host. False after a finding.
bool SearchWithCopies(const OrderRules& rules, const SplitStep* split,
                      const ElaborateLimits& limits, Plan* plan, Diagnostics* diagnostics) {
  const auto find = [&](std::string text) {
    diagnostics->Add(Code::kNoOrder, rules.search.offload_span, std::move(text)).where =
        PrintParameters(*plan);
    return false;
  };
  if (rules.search.objective == "period") {
    return find("a search with 'offload' minimizes the makespan or the span, not the period");
  }
  const std::vector<SearchPlace> places = PlacesOf(rules, split, *plan, diagnostics);
  if (places.empty() || !IsSmallEnough(places[0], rules, diagnostics)) return false;
  const SearchPlace& place = places[0];
  const Problem least = LeastHeld(rules, place);
  if (!search::CanBeKept(least)) {
    FindLimits(least, rules, *plan, diagnostics);
    return false;
  }
  const search::Effort effort = {.iterations =
                                     rules.search.iterations.value_or(DefaultIterations(least))};
  std::optional<CopiedOrders> copied = FindCopies(rules, place, effort, limits);
  if (!copied) return find("no order was found that fits, with copies to the host either");
  const search::Recomputes recomputes =
      search::StagesThat(search::kRecomputes, copied->found.recomputes);
  FillOrders(rules, place, std::move(copied->plan), copied->found, recomputes, plan);
  return true;
}

}  // namespace

bool SearchOrders(const OrderRules& rules, const SplitStep* split, const ElaborateLimits& limits,
                  Plan* plan, Diagnostics* diagnostics) {
  if (rules.search.offload_all || rules.search.offload_any) {
    return SearchWithCopies(rules, split, limits, plan, diagnostics);
  }
  const std::vector<SearchPlace> places = UsablePlaces(rules, split, *plan, diagnostics);
  if (places.empty()) return false;
  std::vector<Partitioning> partitionings;
  for (const SearchPlace& place : places) {
    Partitioning& partitioning = partitionings.emplace_back(PartitioningOf(rules, place));
    partitioning.problem_of = [of = std::move(partitioning.problem_of),
                               stop = limits.stop](absl::Span<const int> partition) {
      Problem problem = of(partition);
      problem.stop = stop;
      return problem;
    };
    if (!partitioning.problem_with) continue;
    partitioning.problem_with = [with = std::move(partitioning.problem_with), stop = limits.stop](
                                    absl::Span<const int> partition,
                                    const search::Recomputes& recomputes) {
      Problem problem = with(partition, recomputes);
      problem.stop = stop;
      return problem;
    };
  }
  const bool is_free = places.size() > 1 || places[0].is_free || rules.search.recompute_any;
  const Problem first = partitionings[0].problem_of(places[0].partition);
  search::Effort effort;
  effort.iterations =
      rules.search.iterations.value_or(DefaultIterations(first) * (is_free ? kMoreForChoice : 1));
  const search::Found found =
      search::FindPlaceOnce(partitionings, effort, limits.searched_letters, limits.kept);
  const SearchPlace& place = places[static_cast<size_t>(found.place)];
  const search::Recomputes recomputes = rules.search.recompute_any
                                            ? found.recomputes
                                            : SearchProblem(rules, place.plan).FixedRecomputes();
  FillOrders(rules, place, search::PlanOf(place.plan, found.words), found, recomputes, plan);
  return true;
}

}  // namespace stringline
