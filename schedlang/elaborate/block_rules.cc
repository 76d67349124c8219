// Every rank evaluates its rules anew. A rule that must agree on all ranks is taken from the first
// and compared on the others.
#include "schedlang/elaborate/block_rules.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/elaborate/per_stage.h"
#include "schedlang/elaborate/search_orders.h"

namespace stringline {
namespace {

constexpr int64_t kMostCost = 1'000'000'000;
constexpr int64_t kMostIterationsSaid = 1'000'000'000;
constexpr int64_t kMostSearchedLayers = 4096;

// The part of a rule that keeps a rank from its end.
std::string WhyStuck(const GreedyRule& rule) {
  const auto prefers = [&rule](ActionKind kind) {
    return std::find(rule.prefer.begin(), rule.prefer.end(), kind) != rule.prefer.end();
  };
  if (!prefers(ActionKind::kForward)) return ": it prefers no F";
  if (!prefers(ActionKind::kBackward) && !prefers(ActionKind::kInputGradient)) {
    return ": it prefers neither B nor I";
  }
  if (!prefers(ActionKind::kBackward) && !prefers(ActionKind::kWeightGradient)) {
    return ": it prefers I, and no W";
  }
  return rule.hold ? absl::StrCat(": it holds at most ", *rule.hold) : "";
}

// Usual costs where the block gives none of an action; B = I + W where it gives those two.
void CompleteCosts(std::array<std::vector<int64_t>, 4>* actions) {
  auto& [forward, backward, input, weight] = *actions;
  if (forward.empty() && backward.empty() && input.empty() && weight.empty()) {
    *actions = UnitOrderCosts().actions;
  }
  if (!backward.empty() || input.empty() || weight.empty()) return;
  backward.resize(std::max(input.size(), weight.size()));
  for (size_t s = 0; s < backward.size(); ++s) {
    backward[s] = input[input.size() == 1 ? 0 : s] + weight[weight.size() == 1 ? 0 : s];
  }
}

// The end of a finding about such a cost: "costs are ".
const char* CalledIn(CostOf of) {
  if (of == CostOf::kAction) return "costs are ";
  if (of == CostOf::kMicrobatch) return "factors of microbatches are ";
  return of == CostOf::kMessage ? "costs of messages are " : "what a microbatch holds is ";
}

}  // namespace

BlockRules::BlockRules(const Program& program, const ElaborateLimits& limits, Evaluator* evaluator,
                       RankWork* work, Plan* plan, Diagnostics* diagnostics)
    : program_(program),
      limits_(limits),
      evaluator_(evaluator),
      work_(work),
      plan_(plan),
      diagnostics_(diagnostics) {
  rules_.costs = UnitOrderCosts();
  rules_.span = program.mode_span;
  rules_.place = program.mode_place;
}

void BlockRules::StartRank() {
  rules_.ranks.emplace_back();
  rules_.search.most.emplace_back();
}

bool BlockRules::Take(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kHold:
      return TakeHold(step);
    case Step::Kind::kPrefer:
      return TakePrefer(step);
    case Step::Kind::kCosts:
      return TakeCosts(step);
    case Step::Kind::kWithin:
      return TakeWithin(step);
    case Step::Kind::kPairs:
      return TakePairs(step);
    case Step::Kind::kIterations:
      return TakeIterations(step);
    case Step::Kind::kPlace:
      return TakePlaces(step);
    case Step::Kind::kLayers:
      return TakeLayers(step);
    default:
      rules_.search.objective = step.text;
      return true;
  }
}

bool BlockRules::TakeHold(const Step& step) {
  const int64_t most = evaluator_->Evaluate(step.node);
  if (!work_->Evaluated(evaluator_)) return false;
  rules_.ranks.back().hold = most;
  if (most >= 1) return true;
  work_->Find(Code::kBadRule, step.span,
              absl::StrCat("a rank that holds at most ", most, " microbatches begins none",
                           evaluator_->ValuesIn(step.node)));
  return false;
}

bool BlockRules::TakePrefer(const Step& step) {
  rules_.ranks.back().prefer = step.kinds;
  for (size_t i = 0; i < step.kinds.size(); ++i) {
    rules_.places[step.kinds[i]] = static_cast<uint32_t>(step.nodes[i]);
  }
  return true;
}

bool BlockRules::IsSameOnAllRanks(bool same, Span span, const char* what) {
  if (!same) {
    work_->Find(Code::kBadRule, span, absl::StrCat(what, " not the same on all ranks"));
  }
  return same;
}

bool BlockRules::TakeCosts(const Step& step) {
  OrderCosts costs;
  HeldCosts held;
  for (const CostStep& cost : step.costs) {
    std::vector<int64_t> values;
    if (!EvaluateCost(cost, &values)) return false;
    switch (cost.of) {
      case CostOf::kAction:
        costs.actions[static_cast<size_t>(cost.kind)] = std::move(values);
        break;
      case CostOf::kMessage:
        costs.p2p = values.front();
        break;
      case CostOf::kMicrobatch:
        costs.microbatches = std::move(values);
        break;
      case CostOf::kSavedForInput:
        held.saved_for_input = std::move(values);
        break;
      case CostOf::kSavedForWeight:
        held.saved_for_weight = std::move(values);
        break;
      case CostOf::kStash:
        held.stash = std::move(values);
        break;
      case CostOf::kInput:
        held.input = std::move(values);
        break;
    }
  }
  CompleteCosts(&costs.actions);
  if (rules_.ranks.size() == 1) {
    rules_.costs = costs;
    rules_.search.held = held;
  }
  return IsSameOnAllRanks(costs == rules_.costs && held == rules_.search.held, step.span,
                          "the costs are");
}

bool BlockRules::EvaluateCost(const CostStep& cost, std::vector<int64_t>* values) {
  const bool of_microbatches = cost.of == CostOf::kMicrobatch;
  const int64_t least = cost.of == CostOf::kAction || of_microbatches ? 1 : 0;
  const int count = of_microbatches ? plan_->microbatches / plan_->steps : CostedStages();
  const auto take = [&](int32_t node, int64_t value) {
    values->push_back(value);
    if (value >= least && value <= kMostCost) return true;
    work_->Find(Code::kBadRule, program_.nodes[node].span,
                absl::StrCat("a cost of ", value, evaluator_->ValuesIn(node), "; ",
                             CalledIn(cost.of), least, " .. ", kMostCost));
    return false;
  };
  if (!ForEachValue(cost.value, count, evaluator_, take)) {
    return work_->Evaluated(evaluator_) && false;
  }
  if (!cost.value.is_list || values->size() == static_cast<size_t>(count)) return true;
  const char* const one = of_microbatches        ? " microbatch"
                          : rules_.search.layers ? " layer"
                                                 : " stage";
  const char* const many =
      of_microbatches || plan_->pipes.empty() ? "there are " : "every pipe has ";
  work_->Find(Code::kBadRule, cost.span,
              absl::StrCat("costs of ", values->size(), one,
                           values->size() == 1 ? ""
                           : of_microbatches   ? "es"
                                               : "s",
                           ", but ", many, count));
  return false;
}

// The number of stages, or layers, that have costs.
int BlockRules::CostedStages() const {
  if (rules_.search.layers) return static_cast<int>(*rules_.search.layers);
  return plan_->pipes.empty() ? static_cast<int>(plan_->stages.size()) : plan_->pipes[0].stages;
}

bool BlockRules::TakeWithin(const Step& step) {
  const int64_t most = evaluator_->Evaluate(step.node);
  if (!work_->Evaluated(evaluator_)) return false;
  rules_.search.in_memory = step.text == "memory";
  rules_.search.most.back() = most;
  rules_.search.most_span = step.span;
  if (most >= 0) return true;
  work_->Find(Code::kBadRule, step.span,
              absl::StrCat("a limit of ", most, evaluator_->ValuesIn(step.node)));
  return false;
}

bool BlockRules::TakePairs(const Step& step) {
  std::vector<int64_t> values;
  if (!step.costs.empty() && !EvaluateCost(step.costs.front(), &values)) return false;
  const auto [it, is_new] = rules_.search.pairs.try_emplace(step.kinds.back(), values);
  return IsSameOnAllRanks(is_new || it->second == values, step.span, "the costs of the pair are");
}

bool BlockRules::TakeIterations(const Step& step) {
  const int64_t count = evaluator_->Evaluate(step.node);
  if (!work_->Evaluated(evaluator_)) return false;
  if (count < 1 || count > kMostIterationsSaid) {
    work_->Find(Code::kBadRule, step.span,
                absl::StrCat("a search of ", count, " iterations", evaluator_->ValuesIn(step.node),
                             "; it takes 1 .. ", kMostIterationsSaid));
    return false;
  }
  const bool is_first = !rules_.search.iterations;
  if (is_first) rules_.search.iterations = count;
  return IsSameOnAllRanks(*rules_.search.iterations == count, step.span, "the iterations are");
}

bool BlockRules::TakePlaces(const Step& step) {
  std::vector<Placing> places;
  for (const PlacingStep& place : step.places) {
    if (!place.layout) {
      places = AnyPlacings();
      break;
    }
    Placing placing{*place.layout, StagesPerRankOf(*place.layout).count};
    if (place.stages_per_rank >= 0) {
      placing.stages_per_rank = evaluator_->Evaluate(place.stages_per_rank);
      if (!work_->Evaluated(evaluator_)) return false;
      if (placing.stages_per_rank < 1 || placing.stages_per_rank > limits_.stages_per_rank) {
        work_->Find(Code::kBadRule, program_.nodes[place.stages_per_rank].span,
                    absl::StrCat(placing.stages_per_rank, " stages a rank",
                                 evaluator_->ValuesIn(place.stages_per_rank),
                                 "; there may be 1 .. ", limits_.stages_per_rank));
        return false;
      }
    }
    places.push_back(placing);
  }
  if (rules_.ranks.size() == 1) rules_.search.places = places;
  // A layer for each stage, in every place.
  if (!rules_.search.layers) {
    int64_t layers = 1;
    for (const Placing& place : places) layers = std::lcm(layers, place.stages_per_rank);
    rules_.search.layers = std::min(layers * plan_->parameters[0].value, kMostSearchedLayers);
    rules_.search.layers_span = step.span;
  }
  return IsSameOnAllRanks(places == rules_.search.places, step.span, "the places are");
}

bool BlockRules::TakeLayers(const Step& step) {
  const int64_t count = evaluator_->Evaluate(step.node);
  if (!work_->Evaluated(evaluator_)) return false;
  if (count < 1 || count > kMostSearchedLayers) {
    work_->Find(Code::kBadRule, step.span,
                absl::StrCat("a model of ", count, " layers", evaluator_->ValuesIn(step.node),
                             "; a search takes 1 .. ", kMostSearchedLayers));
    return false;
  }
  if (rules_.ranks.size() == 1) {
    rules_.search.layers = count;
    rules_.search.counts_layers = true;
    rules_.search.layers_span = step.span;
  }
  return IsSameOnAllRanks(*rules_.search.layers == count, step.span, "the layers are");
}

// Times are counted in 64 bits, and a search needs room above them.
bool BlockRules::CostsFit(int64_t microbatches) const {
  constexpr double kMost = 1LL << 58;
  const double stages = CostedStages();
  double sum = 2 * stages * static_cast<double>(rules_.costs.p2p);
  const auto add = [&](const std::vector<int64_t>& values) {
    for (const int64_t value : values) {
      sum += static_cast<double>(value) * (values.size() == 1 ? stages : 1);
    }
  };
  for (const std::vector<int64_t>& values : rules_.costs.actions) add(values);
  if (program_.recompute) add(rules_.costs.actions[0]);
  for (const auto& [back, values] : rules_.search.pairs) add(values);
  const std::vector<int64_t>& factors = rules_.costs.microbatches;
  if (!factors.empty())
    sum *= static_cast<double>(*std::max_element(factors.begin(), factors.end()));
  sum *= static_cast<double>(microbatches);
  if (sum < kMost) return true;
  diagnostics_
      ->Add(Code::kBadRule, rules_.span,
            absl::StrFormat("the costs are too large: one after the other all actions take %.3g, "
                            "and times are counted up to %.3g; give smaller costs, or fewer "
                            "microbatches",
                            sum, kMost))
      .where = PrintParameters(*plan_);
  return false;
}

bool BlockRules::OrderRanks(int64_t padded) {
  if (!CostsFit(padded)) return false;
  if (program_.mode == RankMode::kGreedy) return OrderGreedily(padded);
  if (program_.recompute) {
    rules_.search.recompute_all = program_.recompute->all;
    rules_.search.recompute_any = program_.recompute->any;
  }
  if (program_.offload) {
    rules_.search.offload_all = program_.offload->all;
    rules_.search.offload_any = program_.offload->any;
    rules_.search.offload_span = program_.offload->span;
  }
  const SplitStep* const split = program_.split ? &*program_.split : nullptr;
  return SearchOrders(rules_, split, limits_, plan_, diagnostics_);
}

bool BlockRules::OrderGreedily(int64_t padded) {
  std::vector<int64_t> microbatches;
  for (int s = 0; s < static_cast<int>(plan_->stages.size()); ++s) {
    microbatches.push_back(plan_->pipes.empty() ? padded : plan_->microbatches_of(StageId(s)));
  }
  GreedyOrder order = stringline::OrderGreedily(*plan_, microbatches, rules_.ranks, rules_.costs);
  for (const RankId rank : order.stuck) {
    const GreedyRule& rule = rules_.ranks[rank.value];
    diagnostics_
        ->Add(Code::kGreedyStuck, program_.places[rules_.places.begin()->second],
              absl::StrCat("rank ", rank.value, " performs ", order.ranks[rank.value].size(),
                           " actions, and then nothing it may do is left before all is done",
                           WhyStuck(rule)))
        .where = PrintParameters(*plan_);
  }
  if (!order.stuck.empty()) return false;
  plan_->costs = rules_.costs;
  plan_->first = {0};
  for (std::vector<Action>& actions : order.ranks) {
    for (Action& action : actions) {
      action.place = rules_.places[action.kind];
      plan_->actions.push_back(action);
    }
    plan_->first.push_back(static_cast<uint32_t>(plan_->actions.size()));
  }
  return true;
}

}  // namespace stringline
