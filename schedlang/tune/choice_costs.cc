#include "schedlang/tune/choice_costs.h"

#include <algorithm>

#include "schedlang/base/status.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {

// Megatron-LM's default: 40 million parameters, or a million for each copy.
int64_t BucketOf(const Choice& choice) {
  constexpr int64_t kMillionParameters = 4'000'000;  // bytes of their gradients
  return std::max<int64_t>(40, choice.copies()) * kMillionParameters;
}

CostSpec ChoiceCosts(const CostSpec& base, const Choice& choice) {
  CostSpec spec = base;
  ModelShape& model = spec.formula->model;
  model.layout = MeshLayout::kMegatron;
  model.tensor = choice.tensor;
  model.sequence = choice.context;
  model.pipeline = choice.pipeline;
  model.copies = choice.data;
  model.expert = choice.expert;
  model.microbatch = choice.microbatch;
  if (model.bucket == ModelShape().bucket) model.bucket = BucketOf(choice);
  spec.sharding = choice.sharding;
  model.recomputes_cheap = choice.recompute == Recompute::kSelective;
  const int64_t layers = LayersOf(choice, model.layers);
  const bool again = choice.recompute == Recompute::kPart;
  model.recomputed_layers = choice.recompute == Recompute::kFull ? model.layers
                            : again                              ? layers
                                                                 : 0;
  model.hosted_layers = choice.recompute == Recompute::kOffload ? layers : 0;
  return spec;
}

StepCosts CostsOfStep(const BaseCosts& base, const Choice& choice) {
  StepCosts costs = {ChoiceCosts(base.spec, choice), base.slow};
  for (SlowRank& slow : costs.slow) {
    slow.rank = static_cast<int>(slow.rank / (choice.tensor * choice.context * choice.data));
  }
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
    staged.stages.split =
        LightSplit(base.spec.formula->model.layers, choice.pipeline * choice.turns);
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
