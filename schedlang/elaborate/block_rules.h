// What greedy and search blocks say, rank by rank, and the orders that are made of it: a rule says
// no order by itself, so all ranks are put in order together when each has been heard.
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
#include "schedlang/plan.h"

namespace stringline {

// What a microbatch of a stage holds: one for all stages, or one for each stage of a pipe.
struct HeldCosts {
  std::vector<int64_t> saved_for_input = {0};
  std::vector<int64_t> saved_for_weight = {0};
  std::vector<int64_t> stash = {0};

  friend bool operator==(const HeldCosts&, const HeldCosts&) = default;
};

// What a search block says beside what a greedy one does.
struct SearchRules {
  std::string objective = "makespan";
  bool in_memory = false;                    // what `most` counts: memory, or activations
  std::vector<std::optional<int64_t>> most;  // by rank
  Span most_span;
  HeldCosts held;
  // What a pair with F takes, by the kind beside it and the F's stage. Empty: the sum of its parts.
  std::map<ActionKind, std::vector<int64_t>> pairs;
  std::optional<int64_t> iterations;
  // Where stages may live, if the schedule does not say it, and of how many layers costs are: by
  // default each stage is one.
  std::vector<Placing> places;
  std::optional<int64_t> layers;
  bool counts_layers = false;  // the block says how many there are
  Span layers_span;
};

// All that was said, by rank where it may differ.
struct OrderRules {
  std::vector<GreedyRule> ranks;
  OrderCosts costs;
  SearchRules search;
  std::map<ActionKind, uint32_t> places;  // where a kind is named, as an index into Plan::places
  Span span;                              // of the word `greedy` or `search`
  uint32_t place = 0;                     // the same as a place
};

class BlockRules {
 public:
  BlockRules(const Program& program, const ElaborateLimits& limits, Evaluator* evaluator,
             RankWork* work, Plan* plan, Diagnostics* diagnostics);

  void StartRank();
  // Takes the rule of the step. False after a finding.
  bool Take(const Step& step);
  // Fills the plan's actions by what was said; `padded` is how many microbatches the counters see.
  // False after a finding.
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
