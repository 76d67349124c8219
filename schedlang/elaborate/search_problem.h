// Builds the optimiser's problem from a search block.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/costs/costs.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/partition.h"
#include "schedlang/search/problem.h"

namespace stringline {

// Costs are of layers, one after the other in the model; where the block counts none, every stage
// is one. A stage holds of its input what its first layer has. What a stage takes and holds is what
// its layers do together. Where layers are counted, two stages in a pair take what they do alone,
// less what a pair saves the one that saves less by it, and never less than nothing.
class SearchProblem {
 public:
  // `plan` has the places of stages; its actions do not matter.
  SearchProblem(const OrderRules& rules, const Plan& plan) : rules_(rules), plan_(plan) {}

  // The problem of stages with so many layers, in the order of a pipe. `recomputes`: by stage of
  // the plan, 1 if it recomputes; empty: none does.
  search::Problem Of(absl::Span<const int> partition, const search::Recomputes& recomputes) const;
  // The bytes a microbatch of the stage holds without recomputing; kKept: those that entered it.
  StageMemory MemoryOf(absl::Span<const int> partition, StageId stage) const;
  // The choice where the block does not leave open which stages recompute.
  search::Recomputes FixedRecomputes() const;
  // A lower bound on the computation of all microbatches, by layer.
  std::vector<int64_t> LeastWork() const;
  // By layer: F with B, or with I and W without B.
  std::vector<int64_t> WorkOfLayers() const;
  // The costs of actions of stages, in the plan's form.
  OrderCosts CostsOf(absl::Span<const int> partition) const;
  // A hash of all inputs except the places of stages.
  uint64_t Key() const;
  int stages_of_pipe() const {
    return plan_.pipes.empty() ? static_cast<int>(plan_.stages.size()) : plan_.pipes[0].stages;
  }

 private:
  bool Uses(ActionKind kind) const;
  // The number of stages before this stage in its pipe.
  int Along(StageId stage) const;
  int64_t Time(ActionKind kind, int layer) const;
  // The time saved by a pair of this layer's F and its B or I.
  int64_t Saved(ActionKind back, int layer) const;
  int64_t Hop(StageId from, StageId to) const;
  std::vector<int64_t> PairTimes(const search::Problem& problem, ActionKind back,
                                 absl::Span<const int> first_layer,
                                 const search::Recomputes& recomputes) const;

  const OrderRules& rules_;
  const Plan plan_;
};

}  // namespace stringline
