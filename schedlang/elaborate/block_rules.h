// The rules of greedy and search blocks, rank by rank, and the orders made by them. A rule by
// itself is no order, so all ranks are ordered together once the rules of each are known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/elaborate/elaborate.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/layout.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/elaborate/rank_work.h"
#include "schedlang/orders/greedy.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The memory held by a microbatch of a stage: a value for all stages, or for each stage of a pipe.
struct HeldCosts {
  std::vector<int64_t> saved_for_input = {0};
  std::vector<int64_t> saved_for_weight = {0};
  std::vector<int64_t> stash = {0};
  std::vector<int64_t> input = {0};  // by a stage that recomputes

  friend bool operator==(const HeldCosts&, const HeldCosts&) = default;
};

// The rules of a search block that a greedy block lacks.
struct SearchRules {
  std::string objective = "makespan";
  bool in_memory = false;                    // the unit of `most`: memory, or activations
  std::vector<std::optional<int64_t>> most;  // by rank
  Span most_span;
  HeldCosts held;
  // The time of a pair with F, by the kind beside it and the F's stage. Empty: the sum of its
  // parts.
  std::map<ActionKind, std::vector<int64_t>> pairs;
  std::optional<int64_t> iterations;
  // The allowed layouts, if the schedule has no stages, and the number of layers that have costs:
  // by default each stage is a layer.
  std::vector<Placing> places;
  std::optional<int64_t> layers;
  bool counts_layers = false;  // the block gives the number of layers
  Span layers_span;
  bool recompute_all = false;  // all stages do, wherever they live
  bool recompute_any = false;  // the search chooses
  bool offload_all = false;    // all stages copy to the host what waits long enough
  bool offload_any = false;    // the search chooses
  Span offload_span;
};

// The rules of all ranks, by rank if they may differ.
struct OrderRules {
  std::vector<GreedyRule> ranks;
  OrderCosts costs;
  SearchRules search;
  std::map<ActionKind, uint32_t> places;  // the place of each kind, an index into Plan::places
  Span span;                              // the word `greedy` or `search`
  uint32_t place = 0;                     // the same as a place
};

class BlockRules {
 public:
  BlockRules(const Program& program, const ElaborateLimits& limits, Evaluator* evaluator,
             RankWork* work, Plan* plan, Diagnostics* diagnostics);

  void StartRank();
  // Takes the rule of the step. False after a finding.
  bool Take(const Step& step);
  // Fills the plan's actions by the rules; the counters see `padded` microbatches. False after a
  // finding.
  bool OrderRanks(int64_t padded);

 private:
  bool TakeHold(const Step& step);
  bool TakePrefer(const Step& step);
  bool TakeCosts(const Step& step);
  bool TakeWithin(const Step& step);
  bool TakePairs(const Step& step);
  bool TakeIterations(const Step& step);
  bool TakePlaces(const Step& step);
  bool TakeLayers(const Step& step);
  int CostedStages() const;
  bool EvaluateCost(const CostStep& cost, std::vector<int64_t>* values);
  bool IsSameOnAllRanks(bool same, Span span, const char* what);
  bool CostsFit(int64_t microbatches) const;
  bool OrderGreedily(int64_t padded);

  const Program& program_;
  const ElaborateLimits& limits_;
  Evaluator* evaluator_;
  RankWork* work_;
  Plan* plan_;
  Diagnostics* diagnostics_;
  OrderRules rules_;
};

}  // namespace stringline
