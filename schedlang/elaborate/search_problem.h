// From what a search block says to the optimiser's problem.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/elaborate/block_rules.h"
#include "schedlang/plan.h"
#include "schedlang/search/partition.h"
#include "schedlang/search/problem.h"

namespace stringline {

// Costs are of layers, one after the other in the model; where the block counts none, every stage
// is one. What a stage takes and holds is what its layers do together. Where layers are counted,
// two stages in a pair take what they do alone, less what a pair saves the one that saves less by
// it.
class SearchProblem {
 public:
  // `plan` says where stages live; its actions do not matter.
  SearchProblem(const OrderRules& rules, const Plan& plan) : rules_(rules), plan_(plan) {}

  // Of stages with so many layers, in the order of a pipe.
  search::Problem Of(absl::Span<const int> partition) const;
  // What is computed at the least, by layer, of all microbatches.
  std::vector<int64_t> LeastWork() const;
  // By layer: F with B, or with I and W where there is no B.
  std::vector<int64_t> WorkOfLayers() const;
  // What actions of stages cost, as the plan keeps it.
  OrderCosts CostsOf(absl::Span<const int> partition) const;
  // Of all that it depends on but for where stages live.
  uint64_t Key() const;
  int stages_of_pipe() const {
    return plan_.pipes.empty() ? static_cast<int>(plan_.stages.size()) : plan_.pipes[0].stages;
  }

 private:
  bool Uses(ActionKind kind) const;
  // How many of a pipe's stages come before this one.
  int Along(StageId stage) const;
  int64_t Time(ActionKind kind, int layer) const;
  // What a pair of this layer's F and its B or I takes less than the two alone.
  int64_t Saved(ActionKind back, int layer) const;
  int64_t Hop(StageId from, StageId to) const;
  std::vector<int64_t> PairTimes(const search::Problem& problem, ActionKind back,
                                 absl::Span<const int> first_layer) const;

  const OrderRules& rules_;
  const Plan plan_;
};

}  // namespace stringline
