#include "schedlang/elaborate/search_places.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/elaborate/layout.h"
#include "schedlang/elaborate/search_problem.h"

namespace stringline {
namespace {

using search::Partition;

void FindBadPlace(const Plan& plan, Code code, Span span, std::string text,
                  Diagnostics* diagnostics) {
  diagnostics->Add(code, span, std::move(text)).where = PrintParameters(plan);
}

// The partition of a split by stages. Embedding and head are no layers.
Partition LayersOf(const Split& split) {
  if (split.kind == Split::Kind::kLayers) return split.layers;
  Partition partition;
  for (const std::string& stage : split.layout) {
    const auto layers =
        std::count_if(stage.begin(), stage.end(), [](char c) { return c == 't' || c == 'm'; });
    partition.push_back(static_cast<int>(layers));
  }
  return partition;
}

// The partition given by the schedule. Its sum may be wrong.
Partition SaidPartition(const OrderRules& rules, const Plan& plan, int layers) {
  const SearchProblem problem(rules, plan);
  const int stages = problem.stages_of_pipe();
  switch (plan.split.kind) {
    case Split::Kind::kEven:
      return search::EvenPartition(layers, stages);
    case Split::Kind::kBalanced:
      return search::LeastSlowestStage(problem.WorkOfLayers(), stages);
    default:
      return LayersOf(plan.split);
  }
}

std::vector<SearchPlace> StagesOfPlaces(const OrderRules& rules, const Plan& plan) {
  std::vector<SearchPlace> places;
  if (rules.search.places.empty()) places.push_back({plan});
  for (const Placing& placing : rules.search.places) {
    places.push_back({plan});
    places.back().plan.stages = StagesOn(placing, plan.parameters[0].value);
    places.back().plan.SetChains();
  }
  return places;
}

}  // namespace

std::vector<SearchPlace> PlacesOf(const OrderRules& rules, const SplitStep* split, const Plan& plan,
                                  Diagnostics* diagnostics) {
  std::vector<SearchPlace> all = StagesOfPlaces(rules, plan), places;
  int least_stages = 0;
  for (SearchPlace& place : all) {
    const int stages = SearchProblem(rules, place.plan).stages_of_pipe();
    const int layers = static_cast<int>(rules.search.layers.value_or(stages));
    if (layers < stages) {
      least_stages = least_stages == 0 ? stages : std::min(least_stages, stages);
      continue;
    }
    place.partition = rules.search.layers ? SaidPartition(rules, place.plan, layers)
                                          : Partition(static_cast<size_t>(stages), 1);
    const int sum = std::accumulate(place.partition.begin(), place.partition.end(), 0);
    if (sum != layers) {
      FindBadPlace(
          plan, Code::kBadSplit, plan.split.span,
          absl::StrCat("the split has ", sum, " layers, and the search is told of ", layers),
          diagnostics);
      return {};
    }
    place.is_free = split != nullptr && split->any;
    if (place.is_free) place.partition = search::BalancedPartition(PartitioningOf(rules, place));
    places.push_back(std::move(place));
  }
  if (places.empty()) {
    FindBadPlace(plan, Code::kBadRule, rules.search.layers_span,
                 absl::StrCat("there are ", *rules.search.layers, " layers for ", least_stages,
                              " stages; a stage has one at least"),
                 diagnostics);
  }
  return places;
}

search::Partitioning PartitioningOf(const OrderRules& rules, const SearchPlace& place) {
  search::Partitioning partitioning;
  if (!place.is_free) partitioning.fixed = place.partition;
  partitioning.layers = std::accumulate(place.partition.begin(), place.partition.end(), 0);
  partitioning.stages = static_cast<int>(place.partition.size());
  const SearchProblem problem(rules, place.plan);
  const search::Recomputes fixed = rules.search.recompute_any
                                       ? search::Recomputes(place.plan.stages.size(), 1)
                                       : problem.FixedRecomputes();
  partitioning.problem_of = [problem, fixed](absl::Span<const int> of) {
    return problem.Of(of, fixed);
  };
  if (rules.search.recompute_any) {
    partitioning.problem_with = [problem](absl::Span<const int> of,
                                          const search::Recomputes& recomputes) {
      return problem.Of(of, recomputes);
    };
  }
  partitioning.key = problem.Key();
  if (place.is_free) partitioning.pieces = problem.LeastWork();
  return partitioning;
}

}  // namespace stringline
