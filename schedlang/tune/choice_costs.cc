#include "schedlang/tune/choice_costs.h"

#include <algorithm>
#include <utility>

#include "schedlang/base/status.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {

// Megatron-LM's default: 40 million parameters, or a million for each copy.
int64_t BucketOf(const Choice& choice) {
  constexpr int64_t kMillionParameters = 4'000'000;  // bytes of their gradients
  return std::max<int64_t>(40, choice.copies()) * kMillionParameters;
}

namespace {

ModelShape ShapeOf(ModelShape model, const Choice& choice) {
  model.layout = MeshLayout::kMegatron;
  model.tensor = choice.tensor;
  model.sequence = choice.context;
  model.pipeline = choice.pipeline;
  model.copies = choice.data;
  model.expert = choice.expert;
  model.microbatch = choice.microbatch;
  model.recomputes_cheap = choice.recompute == Recompute::kSelective;
  const int64_t layers = LayersOf(choice, model.layers);
  const bool again = choice.recompute == Recompute::kPart;
  model.recomputed_layers = choice.recompute == Recompute::kFull ? model.layers
                            : again                              ? layers
                                                                 : 0;
  model.hosted_layers = choice.recompute == Recompute::kOffload ? layers : 0;
  if (model.bucket == ModelShape().bucket) model.bucket = BucketOf(choice);
  return model;
}

// Layers of stages, filled from the last one on so that none takes longer than `most_ns`; nothing
// if that cannot be.
std::vector<int> Filled(const std::vector<int64_t>& layers_ns, int64_t head_ns, size_t stages,
                        int64_t most_ns) {
  std::vector<int> counts(stages, 0);
  size_t left = layers_ns.size();
  for (size_t s = stages; s-- > 0;) {
    int64_t used_ns = s + 1 == stages ? head_ns : 0;
    const size_t kept = s > 1 ? s - 1 : 0;  // a layer for each stage between
    while (left > kept && used_ns + layers_ns[left - 1] <= most_ns) {
      used_ns += layers_ns[--left];
      ++counts[s];
    }
  }
  return left == 0 ? counts : std::vector<int>();
}

std::vector<int> LightLayers(const CostFormula& formula, const Choice& choice) {
  const ModelShape model = ShapeOf(formula.model, choice);
  const auto time = [&](const StagePart& part) {
    const StageFormula stage = FormulaOf(model, formula.machine, part);
    return stage.forward_ns + stage.input_gradient_ns + stage.weight_gradient_ns;
  };
  const int64_t head_ns = time({model.layers, 0, false, true});
  std::vector<int64_t> layers_ns;
  int64_t least_ns = 0, most_ns = head_ns;
  for (int64_t i = 0; i < model.layers; ++i) {
    // Layers with experts are alike, as are those before them.
    const bool is_new = i == 0 || i == model.first_dense;
    layers_ns.push_back(is_new ? time({i, 1, false, false}) : layers_ns.back());
    least_ns = std::max(least_ns, layers_ns.back());
    most_ns += layers_ns.back();
  }
  const auto stages = static_cast<size_t>(choice.pipeline * choice.turns);
  std::vector<int> best = Filled(layers_ns, head_ns, stages, most_ns);
  while (least_ns < most_ns) {
    const int64_t middle_ns = least_ns + (most_ns - least_ns) / 2;
    std::vector<int> counts = Filled(layers_ns, head_ns, stages, middle_ns);
    if (counts.empty()) {
      least_ns = middle_ns + 1;
    } else {
      best = std::move(counts);
      most_ns = middle_ns;
    }
  }
  return best;
}

}  // namespace

std::vector<int> LayersOfStages(const CostSpec& base, const Choice& choice) {
  if (choice.light_ends) return LightLayers(*base.formula, choice);
  const int64_t stages = choice.pipeline * choice.turns, layers = base.formula->model.layers;
  std::vector<int> counts;
  for (int64_t s = 0; s < stages; ++s) {
    counts.push_back(static_cast<int>(layers / stages + (s < layers % stages ? 1 : 0)));
  }
  return counts;
}

Split LightSplit(const CostSpec& base, const Choice& choice) {
  Split split;
  split.kind = Split::Kind::kLayers;
  split.layers = LayersOfStages(base, choice);
  return split;
}

CostSpec ChoiceCosts(const CostSpec& base, const Choice& choice) {
  CostSpec spec = base;
  spec.formula->model = ShapeOf(base.formula->model, choice);
  spec.sharding = choice.sharding;
  return spec;
}

namespace {

// Adds a share, or keeps the larger one of those at this place: all GPUs of a rank wait for the
// slowest.
template <typename Slow, typename Place>
void KeepLargest(Place Slow::*place, const Slow& slow, std::vector<Slow>* all) {
  for (Slow& known : *all) {
    if (!(known.*place == slow.*place)) continue;
    known.share = std::max(known.share, slow.share);
    return;
  }
  all->push_back(slow);
}

}  // namespace

StepCosts CostsOfStep(const BaseCosts& base, const Choice& choice) {
  StepCosts costs = {ChoiceCosts(base.spec, choice), {}};
  const int64_t ranks = choice.tensor * choice.context * choice.data;  // of a stage
  for (const SlowRank& slow : base.slow) {
    KeepLargest(&SlowRank::rank, {static_cast<int>(slow.rank / ranks), slow.share}, &costs.slow);
  }
  for (const SlowLink& slow : base.slow_links) {
    const auto& [from, to, both_ways] = slow.link;
    const RankLink link = {static_cast<int32_t>(from / ranks), static_cast<int32_t>(to / ranks),
                           both_ways};
    if (link.from == link.to) {
      costs.spec.formula->slow_pairs.push_back({from, to, static_cast<double>(slow.share) * 1e-6});
    } else if (from % ranks == to % ranks) {
      KeepLargest(&SlowLink::link, {link, slow.share}, &costs.slow_links);
    }
  }
  costs.spec.spares_links = true;  // links of ranks that send each other nothing
  return costs;
}

absl::StatusOr<CostModel> CostsOn(const BaseCosts& base, const Choice& choice, const Plan& plan) {
  return ResolveCosts(CostsOfStep(base, choice), plan);
}

absl::StatusOr<StagedCosts> StagedCostsOf(const BaseCosts& base, const Choice& choice) {
  const KnownSchedule line;
  const bool is_group = choice.schedule < 0;
  const KnownSchedule& schedule =
      is_group ? line : KnownSchedules()[static_cast<size_t>(choice.schedule)];
  StagedCosts staged;
  staged.stages = StagesOnly(schedule, choice.pipeline, choice.microbatches, choice.turns);
  if (choice.light_ends) {
    staged.stages.split = LightSplit(base.spec, choice);
  }
  const BaseCosts even = {base.spec, {}};
  SL_ASSIGN_OR_RETURN(staged.costs, CostsOn(is_group ? even : base, choice, staged.stages));
  return staged;
}

double ModelOperations(const CostSpec& base, int64_t sequences) {
  // At one operation a nanosecond, and bytes that take no time, times are numbers of operations.
  ModelShape model = base.formula->model;
  model.precision = Precision::kBf16;
  const MachineSpeed counter = {.name = "", .flops = 1e9, .memory_bandwidth = 0, .efficiency = 1};
  const StagePart whole = {0, model.layers, true, true};
  return 3.0 * static_cast<double>(FormulaOf(model, counter, whole).forward_ns) *
         static_cast<double>(sequences);
}

}  // namespace stringline::tune
