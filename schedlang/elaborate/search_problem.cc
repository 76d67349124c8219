// Sums of layers become the optimiser's stages; a stage that recomputes adds its F and drops
// values.
#include "schedlang/elaborate/search_problem.h"

#include <algorithm>
#include <numeric>

#include "schedlang/base/fnv.h"
#include "schedlang/costs/recompute.h"
#include "schedlang/search/problem_of.h"

namespace stringline {
namespace {

using search::Problem;
using search::StageWork;

// A value for all layers, or for each.
int64_t At(const std::vector<int64_t>& values, int layer) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(layer)];
}

// By stage, what its layers have together; one value where all stages have as much.
template <typename OfLayer>
std::vector<int64_t> SumsOfStages(absl::Span<const int> partition, OfLayer of_layer) {
  std::vector<int64_t> sums;
  int layer = 0;
  for (const int layers : partition) {
    int64_t& sum = sums.emplace_back(0);
    for (const int end = layer + layers; layer < end; ++layer) sum += of_layer(layer);
  }
  const auto alike = std::count(sums.begin(), sums.end(), sums[0]);
  if (alike == static_cast<int64_t>(sums.size())) sums.resize(1);
  return sums;
}

}  // namespace

bool SearchProblem::Uses(ActionKind kind) const {
  const std::vector<ActionKind>& prefer = rules_.ranks.front().prefer;
  return prefer.empty() || std::count(prefer.begin(), prefer.end(), kind) > 0;
}

int SearchProblem::Along(StageId stage) const {
  if (plan_.pipes.empty()) return stage.value;
  const int pipe = plan_.stage(stage).pipe;
  return stage.value - plan_.pipes[static_cast<size_t>(pipe)].first_stage.value;
}

int64_t SearchProblem::Time(ActionKind kind, int layer) const {
  if (rules_.costs.actions[static_cast<size_t>(kind)].empty()) return 0;  // no order has the kind
  return rules_.costs.of(kind, layer);
}

int64_t SearchProblem::Saved(ActionKind back, int layer) const {
  const auto pair = rules_.search.pairs.find(back);
  if (pair == rules_.search.pairs.end() || pair->second.empty()) return 0;
  return Time(ActionKind::kForward, layer) + Time(back, layer) - At(pair->second, layer);
}

int64_t SearchProblem::Hop(StageId from, StageId to) const {
  const bool other = to.valid() && plan_.stage(from).rank != plan_.stage(to).rank;
  return other ? rules_.costs.p2p : 0;
}

search::Recomputes SearchProblem::FixedRecomputes() const {
  if (rules_.search.recompute_all) return search::Recomputes(plan_.stages.size(), 1);
  return {plan_.recompute.begin(), plan_.recompute.end()};
}

StageMemory SearchProblem::MemoryOf(absl::Span<const int> partition, StageId stage) const {
  const auto along = static_cast<size_t>(Along(stage));
  const int first = std::accumulate(partition.begin(), partition.begin() + along, 0);
  StageMemory held;
  for (int layer = first; layer < first + partition[along]; ++layer) {
    held[MemoryClass::kSavedForInput] += At(rules_.search.held.saved_for_input, layer);
    held[MemoryClass::kSavedForWeight] += At(rules_.search.held.saved_for_weight, layer);
    held[MemoryClass::kStash] += At(rules_.search.held.stash, layer);
  }
  held[MemoryClass::kKept] = At(rules_.search.held.input, first);
  return held;
}

Problem SearchProblem::Of(absl::Span<const int> partition,
                          const search::Recomputes& recomputes) const {
  Problem problem;
  problem.ranks = static_cast<int>(rules_.ranks.size());
  problem.whole = Uses(ActionKind::kBackward);
  problem.split = Uses(ActionKind::kInputGradient);
  problem.objective = *search::ObjectiveOf(rules_.search.objective);
  for (const std::optional<int64_t>& most : rules_.search.most) {
    problem.capacity.push_back(most.value_or(search::kNoLimit));
  }
  std::vector<int> first_layer = {0};  // by stage along a pipe
  for (const int layers : partition) first_layer.push_back(first_layer.back() + layers);
  for (size_t s = 0; s < plan_.stages.size(); ++s) {
    const StageId id(static_cast<int32_t>(s));
    const auto along = static_cast<size_t>(Along(id));
    StageWork work = search::WorkOf(plan_, id);
    const bool again = !recomputes.empty() && recomputes[s] == 1;
    for (int layer = first_layer[along]; layer < first_layer[along + 1]; ++layer) {
      for (size_t k = 0; k < work.time.size(); ++k) {
        work.time[k] += Time(static_cast<ActionKind>(k), layer);
      }
    }
    StageMemory held = MemoryOf(partition, id);
    if (again) {
      work.time[search::kWholeAt] += work.time[search::kForwardAt];
      work.time[search::kInputAt] += work.time[search::kForwardAt];
      KeepInput(held[MemoryClass::kKept], &held);
    }
    work.activation.latency = Hop(id, plan_.graph.Behind(id));
    work.gradient.latency = Hop(id, plan_.graph.Before(id));
    if (rules_.search.in_memory) {
      search::HoldBytes(search::HeldOf(held), &work);
    } else {
      search::HoldActivations(&work);
    }
    problem.stages.push_back(work);
  }
  for (const auto& [back, costs] : rules_.search.pairs) {
    const bool whole = back == ActionKind::kBackward;
    (whole ? problem.whole_pairs : problem.input_pairs) =
        PairTimes(problem, back, first_layer, recomputes);
  }
  return problem;
}

std::vector<int64_t> SearchProblem::PairTimes(const Problem& problem, ActionKind back,
                                              absl::Span<const int> first_layer,
                                              const search::Recomputes& recomputes) const {
  std::vector<int64_t> saved;  // by stage
  for (size_t s = 0; s < plan_.stages.size(); ++s) {
    const auto along = static_cast<size_t>(Along(StageId(static_cast<int32_t>(s))));
    int64_t& sum = saved.emplace_back(0);
    for (int layer = first_layer[along]; layer < first_layer[along + 1]; ++layer) {
      sum += Saved(back, layer);
    }
  }
  const std::vector<int64_t>& costs = rules_.search.pairs.at(back);
  const bool of_stages = !rules_.search.layers && !costs.empty();
  return search::PairTimes(problem, [&](int a, int b) {
    if (of_stages) {
      const bool again = !recomputes.empty() && recomputes[static_cast<size_t>(b)] == 1;
      const int64_t forward = problem.stages[static_cast<size_t>(b)].time[search::kForwardAt];
      return At(costs, Along(StageId(a))) + (again ? forward : 0);
    }
    const int64_t alone = problem.stages[static_cast<size_t>(a)].time[search::kForwardAt] +
                          problem.stages[static_cast<size_t>(b)].time[search::Index(back)];
    const int64_t less = std::min(saved[static_cast<size_t>(a)], saved[static_cast<size_t>(b)]);
    return std::max<int64_t>(0, alone - less);
  });
}

std::vector<int64_t> SearchProblem::WorkOfLayers() const {
  std::vector<int64_t> work;
  for (int layer = 0; layer < static_cast<int>(*rules_.search.layers); ++layer) {
    const int64_t whole = Time(ActionKind::kBackward, layer);
    const int64_t split =
        Time(ActionKind::kInputGradient, layer) + Time(ActionKind::kWeightGradient, layer);
    const bool both = Uses(ActionKind::kBackward) && Uses(ActionKind::kInputGradient);
    work.push_back(Time(ActionKind::kForward, layer) + (both ? std::min(whole, split)
                                                        : Uses(ActionKind::kBackward) ? whole
                                                                                      : split));
  }
  return work;
}

std::vector<int64_t> SearchProblem::LeastWork() const {
  std::vector<int64_t> work = WorkOfLayers();
  for (size_t layer = 0; layer < work.size(); ++layer) {
    const int64_t saved = std::max(Saved(ActionKind::kBackward, static_cast<int>(layer)),
                                   Saved(ActionKind::kInputGradient, static_cast<int>(layer)));
    work[layer] = std::clamp<int64_t>(work[layer] - saved, 0, work[layer]) * plan_.microbatches;
  }
  return work;
}

OrderCosts SearchProblem::CostsOf(absl::Span<const int> partition) const {
  OrderCosts costs = rules_.costs;
  const auto pair_of = [&](ActionKind back) -> OrderCosts::Pair& {
    return back == ActionKind::kBackward ? costs.beside_backward : costs.beside_input;
  };
  if (!rules_.search.layers) {
    for (const auto& [back, takes] : rules_.search.pairs) pair_of(back).takes = takes;
    return costs;
  }
  for (size_t k = 0; k < costs.actions.size(); ++k) {
    if (costs.actions[k].empty()) continue;
    costs.actions[k] =
        SumsOfStages(partition, [&](int layer) { return Time(static_cast<ActionKind>(k), layer); });
  }
  for (const auto& [back, takes] : rules_.search.pairs) {
    if (takes.empty()) continue;
    pair_of(back).saves =
        SumsOfStages(partition, [this, kind = back](int layer) { return Saved(kind, layer); });
  }
  return costs;
}

uint64_t SearchProblem::Key() const {
  Fnv hash;
  const auto add = [&hash](const std::vector<int64_t>& values) {
    hash.Add(values.size());
    for (const int64_t value : values) hash.Add(static_cast<uint64_t>(value));
  };
  hash.Add(static_cast<uint64_t>(rules_.search.layers.value_or(0)));
  for (const std::vector<int64_t>& of : rules_.costs.actions) add(of);
  add(rules_.search.held.saved_for_input);
  add(rules_.search.held.saved_for_weight);
  add(rules_.search.held.stash);
  for (const auto& [back, costs] : rules_.search.pairs) {
    hash.Add(static_cast<uint64_t>(back));
    add(costs);
  }
  const search::Recomputes recomputes = FixedRecomputes();
  if (rules_.search.recompute_any || !recomputes.empty()) {
    add(rules_.search.held.input);
    add(recomputes);
  }
  return hash.value();
}

}  // namespace stringline
