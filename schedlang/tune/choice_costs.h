// The costs of a choice. The only place where a choice becomes costs: everything else of the
// planner sees a CostSpec.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/session.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"
#include "schedlang/tune/choice.h"

namespace stringline::tune {

// The costs that hold for every choice: ReadModel's, slow GPUs, and slow links between two GPUs.
// GPU g of the cluster is of rank g / (tp cp dp) of a pipeline, in Megatron's layout
// (data_parallel.h), and sends to the GPUs of the same place in their ranks.
using BaseCosts = StepCosts;

// Bytes of gradients that are reduced at once, unless the model's file says it.
int64_t BucketOf(const Choice& choice);

CostSpec ChoiceCosts(const CostSpec& base, const Choice& choice);

// The same with slow ranks of a pipeline, and links between them, in place of those of GPUs; a slow
// link between two GPUs of one rank is a slow pair of the formula.
StepCosts CostsOfStep(const BaseCosts& base, const Choice& choice);

// The costs for a plan with the choice's stages. Errors: those of ResolveCosts.
absl::StatusOr<CostModel> CostsOn(const BaseCosts& base, const Choice& choice, const Plan& plan);

// The layers of each stage: as even as they can be; or with light ends so that the slowest stage is
// as fast as it can be by the formula's times, head and further predicted tokens among them, and
// then the first stages have the fewest. A stage between the ends has a layer at least.
std::vector<int> LayersOfStages(const CostSpec& base, const Choice& choice);

// These layers as a split.
Split LightSplit(const CostSpec& base, const Choice& choice);

// The stages of a choice as a plan without actions, and their costs; of a group those of the
// line of its ranks, split evenly, on GPUs of one speed.
struct StagedCosts {
  Plan stages;
  CostModel costs;
};
absl::StatusOr<StagedCosts> StagedCostsOf(const BaseCosts& base, const Choice& choice);

// The floating point operations of the model for a step of so many sequences: three times those of
// the forward, so none for recomputation.
double ModelOperations(const CostSpec& base, int64_t sequences);

}  // namespace stringline::tune
