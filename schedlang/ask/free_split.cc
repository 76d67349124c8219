// The split is searched with the costs of the whole model, a line of its layers gives what bounds
// every split, and each partition is a problem of its own.
#include "schedlang/ask/free_split.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/placed_search.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/work_shares.h"
#include "schedlang/plan/parts.h"

namespace stringline {
namespace {

// Bytes do not matter where activations are counted.
SearchRequest Unlimited(SearchRequest request) {
  request.limits.activations = search::kNoLimit;
  return request;
}

// By stage, 1 if it recomputes, as PlacedProblemOf takes it.
std::vector<int64_t> RecomputingOf(const SearchRequest& request, const Plan& stages) {
  if (request.recompute == SearchRecompute::kAsCosts) return {};
  return std::vector<int64_t>(stages.stages.size(),
                              request.recompute == SearchRecompute::kNone ? 0 : 1);
}

// The model as a line with a stage for each layer, one for the embedding and one for the head.
Plan LayersInLine(const Plan& stages, int layers) {
  Plan plan;
  plan.parameters = stages.parameters;
  plan.microbatches = stages.microbatches;
  std::vector<int> partition(static_cast<size_t>(layers) + 2, 1);
  partition.front() = partition.back() = 0;
  const int count = static_cast<int>(partition.size());
  for (int s = 0; s < count; ++s) {
    plan.stages.push_back({.rank = RankId(s)});
  }
  plan.SetChains();
  plan.first.assign(static_cast<size_t>(count) + 1, 0);
  return WithPartition(std::move(plan), partition);
}

bool HasParts(const CostSpec& spec) {
  for (int part = 0; part < kParts; ++part) {
    if (spec.values.count(PartName(part)) > 0) return true;
  }
  return false;
}

// True if the times of actions and pairs are those of their parts alone.
bool AreOfParts(const CostModel& costs) {
  if (costs.parts.empty() || !costs.forward_backward.empty()) return false;
  for (size_t s = 0; s < costs.parts.size(); ++s) {
    const PartCosts& parts = costs.parts[s];
    if (costs.forward[s] != parts.Forward() || costs.input_gradient[s] < parts.InputGradient() ||
        costs.weight_gradient[s] != parts.WeightGradient()) {
      return false;
    }
  }
  return true;
}

// Costs of layers in line: no rank is slow there, as a slow one only takes longer; and links are
// those of ranks.
StepCosts CostsOfLayers(const StepCosts& costs) {
  StepCosts of_layers{costs.spec, {}};
  of_layers.spec.links.clear();
  return of_layers;
}

// Lower bounds for the times of each layer, the embedding and the head. Stages are rounded to whole
// nanoseconds, and so is each piece: a piece counts as 1 ns less for each kind of action, or for
// each part. Where parts overlap, layers of a stage hide each other's communication: then a piece
// is its computation.
std::vector<int64_t> PiecesOf(const SearchRequest& request, const StepCosts& costs,
                              const Plan& stages, int layers) {
  const Plan line = LayersInLine(stages, layers);
  // A lower bound must hold for stages that do not recompute, if stages may choose.
  const std::vector<int64_t> recomputes = request.recompute == SearchRecompute::kAny
                                              ? std::vector<int64_t>(line.stages.size(), 0)
                                              : RecomputingOf(request, line);
  const auto placed = ProblemWithin(Unlimited(request), CostsOfLayers(costs), line, recomputes);
  if (!placed.ok()) return {};
  const CostModel& priced = placed->costs;
  const bool overlap = !priced.parts.empty() && (request.limits.pairs || stages.chunks > 1);
  if (overlap && !AreOfParts(priced)) return {};
  const int64_t rounding = priced.parts.empty() ? 3 : kParts;
  std::vector<int64_t> pieces;
  for (int r = 0; r < placed->problem.ranks; ++r) {
    const search::StageWork& stage = placed->problem.stages[static_cast<size_t>(r)];
    const int64_t work =
        overlap ? priced.parts[static_cast<size_t>(r)].OnLane(Lane::kCompute) * stage.microbatches
                : search::LeastWork(placed->problem, r);
    pieces.push_back(std::max<int64_t>(0, work - rounding * stage.microbatches));
  }
  return pieces;
}

// Times of whole nanoseconds and sizes of whole bytes are rounded for each stage: those of a layer
// count as one less.
search::Problem WithoutRounding(search::Problem line) {
  for (search::StageWork& stage : line.stages) {
    for (int64_t& time : stage.time) time = std::max<int64_t>(0, time - 1);
  }
  return line;
}

// The least that layers hold, where bytes are counted, and a stage holds those of its layers. Where
// parts overlap, or in pairs, layers may take less time in a stage than alone.
std::vector<search::HeldWork> HeldByPieces(const SearchRequest& request, const StepCosts& costs,
                                           const Plan& stages, int layers) {
  const bool may_recompute = request.recompute == SearchRecompute::kAny;
  if (!may_recompute && request.recompute != SearchRecompute::kNone) return {};
  if (request.limits.activations >= 0 || request.limits.pairs || stages.chunks > 1) return {};
  if (request.offload != SearchOffload::kNone) return {};
  SearchRequest unlimited = request;
  unlimited.memory = std::numeric_limits<int64_t>::max() / 8;
  const Plan line = LayersInLine(stages, layers);
  const auto problem = [&](int64_t recomputes) {
    return ProblemWithin(unlimited, CostsOfLayers(costs), line,
                         std::vector<int64_t>(line.stages.size(), recomputes));
  };
  const auto none = problem(0), all = problem(may_recompute ? 1 : 0);
  if (!none.ok() || !all.ok() || none->costs.memory.empty()) return {};
  return search::HeldWorkOf(WithoutRounding(none->problem), WithoutRounding(all->problem),
                            /*is_divided=*/may_recompute);
}

// The room of all ranks together for what microbatches hold; the bytes at all times are those of
// the layers, wherever they are. Nothing where a rank has no limit.
std::optional<search::Area> RoomOfRanks(const SearchRequest& request, const StepCosts& costs,
                                        const Plan& even, int layers,
                                        const std::vector<int64_t>& recomputes) {
  const auto placed = ProblemWithin(request, costs, even, recomputes);
  if (!placed.ok() || !placed->memory.is_given()) return std::nullopt;
  search::Area room = 2 * layers * even.microbatches;  // for rounding
  for (const int64_t capacity : placed->problem.capacity) {
    if (capacity >= search::kNoLimit) return std::nullopt;
    room += capacity;
  }
  return room;
}

}  // namespace

absl::StatusOr<int> LayersOfModel(const StepCosts& costs, int said) {
  if (!costs.spec.IsOfModel() || costs.spec.work == WorkScope::kRank) {
    return absl::InvalidArgumentError(
        "`split=any` shares out a model's layers: give costs of the whole model (`work=model`), or "
        "a model's shape (`costs=FILE.yaml`)");
  }
  const auto of_costs = costs.spec.values.find("layers");
  const bool in_costs = of_costs != costs.spec.values.end();
  if (!costs.spec.formula && !in_costs) {
    if (HasParts(costs.spec)) {
      return absl::InvalidArgumentError(
          "costs of parts are those of a layer: give the model's layers in the costs, too "
          "(layers=32)");
    }
    if (said >= 1) return said;
    return absl::InvalidArgumentError(
        "`split=any` shares out a model's layers: say how many it has (`layers=N`)");
  }
  const int layers =
      static_cast<int>(in_costs ? of_costs->second[0] : costs.spec.formula->model.layers);
  if (said < 0 || said == layers) return layers;
  return absl::InvalidArgumentError(absl::StrCat(
      "`layers=", said, "`: ", in_costs ? "the costs say " : "the model's shape says ", layers));
}

Plan WithPartition(Plan stages, absl::Span<const int> partition) {
  stages.split.kind = Split::Kind::kLayers;
  stages.split.layers.assign(partition.begin(), partition.end());
  stages.split.layout.clear();
  return stages;
}

absl::StatusOr<search::Partitioning> FreeSplit(const SearchRequest& request, const StepCosts& costs,
                                               const Plan& stages,
                                               const search::Recomputes& chosen) {
  search::Partitioning split;
  SL_ASSIGN_OR_RETURN(split.layers, LayersOfModel(costs, request.layers));
  split.stages = StagesOfModel(stages);
  if (split.layers < split.stages) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", split.layers, " layers for ",
                                                   split.stages,
                                                   " stages; a stage has one at least"));
  }
  split.least_at_ends = costs.spec.formula && split.stages > 1 ? 0 : 1;
  const std::vector<int64_t> recomputes = chosen.empty() ? RecomputingOf(request, stages) : chosen;
  const Plan even = WithPartition(stages, search::EvenPartition(split.layers, split.stages));
  // Stands for partitions whose weights alone exceed a rank's limit.
  SL_ASSIGN_OR_RETURN(PlacedProblem placed,
                      ProblemWithin(Unlimited(request), costs, even, recomputes));
  search::Problem without_room = std::move(placed.problem);
  without_room.capacity.assign(without_room.capacity.size(), -1);
  split.problem_of = [=, &request](absl::Span<const int> partition) {
    const Plan plan = WithPartition(stages, partition);
    absl::StatusOr<PlacedProblem> of = ProblemWithin(request, costs, plan, recomputes);
    return of.ok() ? of->problem : without_room;
  };
  split.pieces = PiecesOf(request, costs, stages, split.layers);
  split.backs_may_be_shorter = request.recompute == SearchRecompute::kAny;
  if (const auto room = RoomOfRanks(request, costs, even, split.layers, recomputes)) {
    split.held = HeldByPieces(request, costs, stages, split.layers);
    split.capacity = *room;
  }
  return split;
}

absl::StatusOr<search::Found> ChooseSplit(const SearchRequest& request, const StepCosts& costs,
                                          const Plan& stages, const SearchBudget& budget,
                                          double room, search::Found before) {
  constexpr int64_t kLettersOfASecond = 100'000'000;
  const bool is_timed = budget.iterations == 0;
  const Stop over(request.stop, is_timed ? NowNs() + budget.time_ns / 4 : Stop::kNever);
  SearchRequest in_a_quarter = request;
  in_a_quarter.stop = &over;
  SL_ASSIGN_OR_RETURN(search::Partitioning split,
                      FreeSplit(in_a_quarter, costs, stages, before.recomputes));
  if (room < 1) {
    split.problem_of = [of = split.problem_of, room](absl::Span<const int> partition) {
      search::Problem problem = of(partition);
      for (int64_t& capacity : problem.capacity) {
        if (capacity > 0 && capacity < search::kNoLimit) {
          capacity = static_cast<int64_t>(static_cast<double>(capacity) * room);
        }
      }
      return problem;
    };
  }
  search::Effort effort{.iterations = budget.iterations / 4, .seed = budget.seed};
  if (is_timed) {
    const int64_t letters =
        search::LettersOf(split.problem_of(search::EvenPartition(split.layers, split.stages)));
    effort.iterations = static_cast<int64_t>(static_cast<double>(budget.time_ns) * 0.25e-9 *
                                             kLettersOfASecond / static_cast<double>(letters + 1));
  }
  effort.iterations = std::max<int64_t>(1, effort.iterations);
  return search::FindPartition(split, std::move(before), effort);
}

}  // namespace stringline
