// A microbatch's share of a cost is a sum of two, by tokens and by attention; both are computed
// once for each microbatch, and for each slice of it.
#include "schedlang/costs/microbatch_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/plan/values.h"

namespace stringline {
namespace {

void DivideBySlices(int slices, CostModel* costs) {
  const auto time_of_slice = [slices](int64_t ns) { return (ns + slices / 2) / slices; };
  const auto divide = [&](std::vector<int64_t>* all) {
    for (int64_t& one : *all) one = time_of_slice(one);
  };
  for (auto* const of_stages :
       {&costs->forward, &costs->backward, &costs->input_gradient, &costs->weight_gradient,
        &costs->forward_backward, &costs->forward_input, &costs->saved_beside_backward,
        &costs->saved_beside_input, &costs->again, &costs->recompute, &costs->offload,
        &costs->fetch}) {
    divide(of_stages);
  }
  for (std::vector<int64_t>& own : costs->own.by_stage) divide(&own);
  for (std::vector<Hop>* const hops : {&costs->activation_hops, &costs->gradient_hops}) {
    for (Hop& hop : *hops) hop.transfer_ns = time_of_slice(hop.transfer_ns);
  }
  for (StageMemory& memory : costs->memory) {
    if (memory[MemoryClass::kSliceKeyGrad] != 0) continue;
    memory[MemoryClass::kSliceKeyGrad] = memory[MemoryClass::kSliceKeys];
  }
}

// The bytes of values, times `tokens` over `slices`, rounded up.
void ScaleValues(double tokens, int slices, StageMemory* memory) {
  const auto share = [&](int64_t* bytes) {
    const auto of_microbatch = static_cast<double>(*bytes) * tokens;
    *bytes = (static_cast<int64_t>(std::ceil(of_microbatch)) + slices - 1) / slices;
  };
  for (int c = 0; c < kMemoryClasses; ++c) {
    if (IsOfMicrobatch(static_cast<MemoryClass>(c))) share(&memory->bytes[static_cast<size_t>(c)]);
  }
  share(&memory->remade_for_input);
  share(&memory->remade_for_weight);
}

// By stage, the share of attention in the time of a kind.
std::vector<double> SharesOf(ActionKind kind, const std::vector<StageFormula>& formulas) {
  std::vector<double> shares;
  for (const StageFormula& stage : formulas) {
    const auto input_ns = static_cast<double>(stage.input_gradient_ns);
    const auto back_ns = input_ns + static_cast<double>(stage.weight_gradient_ns);
    double share = stage.input_gradient_scores;
    if (kind == ActionKind::kBackward) share *= back_ns == 0 ? 0 : input_ns / back_ns;
    const bool forward = kind == ActionKind::kForward || kind == ActionKind::kRecompute;
    shares.push_back(forward ? stage.forward_scores : share);
  }
  return shares;
}

void SetAttention(const std::vector<StageFormula>& formulas, const std::vector<int64_t>& attention,
                  MicrobatchShares* shares) {
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kRecompute,
                                ActionKind::kInputGradient, ActionKind::kBackward}) {
    std::vector<double>& of_kind = shares->attention[static_cast<size_t>(kind)];
    of_kind = SharesOf(kind, formulas);
    if (attention.empty()) continue;
    of_kind.clear();
    for (const int64_t share : attention) of_kind.push_back(static_cast<double>(share) / 1e6);
  }
}

// A B or I that begins with its F again has the attention of both.
void AddAgain(const CostModel& costs, MicrobatchShares* shares) {
  const std::vector<double>& forward = shares->attention[static_cast<size_t>(ActionKind::kForward)];
  for (const auto& [kind, times] : {std::pair(ActionKind::kBackward, &costs.backward),
                                    std::pair(ActionKind::kInputGradient, &costs.input_gradient)}) {
    std::vector<double>& of_kind = shares->attention[static_cast<size_t>(kind)];
    if (of_kind.empty() || times->empty()) continue;
    for (size_t s = 0; s < costs.again.size(); ++s) {
      if (costs.again[s] == 0) continue;
      const double again = static_cast<double>(costs.again[s]) / static_cast<double>((*times)[s]);
      of_kind[s] += (forward[s] - of_kind[s]) * again;
    }
  }
}

// The microbatches of a step, by stage, among those of all pipes.
void SetRanges(const Plan& plan, MicrobatchShares* shares) {
  const int numbers = plan.steps * plan.slices;
  for (const Stage& stage : plan.stages) {
    if (plan.pipes.empty()) {
      shares->of_stage.push_back({0, plan.microbatches / numbers});
      continue;
    }
    const Pipe& pipe = plan.pipes[stage.pipe];
    shares->of_stage.push_back({pipe.first_microbatch / numbers, pipe.microbatches / numbers});
  }
}

// The attention of slice k of a microbatch in which these sequences follow each other: the sum of
// the squares of their lengths up to its end, less that up to its beginning.
double AttentionOfSlice(const std::vector<int64_t>& lengths, int k, int slices) {
  const double all =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
  const double begin = all * k / slices, end = all * (k + 1) / slices;
  double before = 0, attention = 0;
  for (const int64_t length : lengths) {
    const double from = std::clamp(begin - before, 0.0, static_cast<double>(length));
    const double to = std::clamp(end - before, 0.0, static_cast<double>(length));
    attention += to * to - from * from;
    before += static_cast<double>(length);
  }
  return attention;
}

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void DivideAll(double by, std::vector<double>* values) {
  for (double& value : *values) value /= by;
}

void SetShares(const UnequalMicrobatches& microbatches, const ModelShape* model,
               MicrobatchShares* shares) {
  for (const std::vector<int64_t>& lengths : microbatches.lengths) {
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    shares->tokens.push_back(static_cast<double>(tokens));
    for (int k = 0; k < shares->slices; ++k) {
      shares->scores.push_back(AttentionOfSlice(lengths, k, shares->slices));
    }
  }
  // The tokens of the usual microbatch, and the attention of its slices on average.
  double tokens = kFactorOne;
  double attention = tokens * tokens / shares->slices;
  if (microbatches.in_tokens && model != nullptr) {
    const auto sequences = static_cast<double>(model->microbatch);
    const auto context = static_cast<double>(model->context);
    tokens = sequences * context;
    attention = sequences * context * context / shares->slices;
  } else if (microbatches.in_tokens) {
    tokens = MeanOf(shares->tokens);
    attention = MeanOf(shares->scores);
  }
  DivideAll(tokens, &shares->tokens);
  DivideAll(attention, &shares->scores);
}

// The index of an action's microbatch in the step.
size_t IndexOf(const MicrobatchShares& shares, const Action& action) {
  const auto [first, count] = shares.of_stage[static_cast<size_t>(action.stage.value)];
  const int index = first + action.microbatch.value / shares.slices % count;
  return static_cast<size_t>(index);
}

// By microbatch of a step, the time of its F and B in all stages.
std::vector<double> WorkOfMicrobatches(const CostModel& costs) {
  MicrobatchShares shares = costs.shares;
  const auto slices = static_cast<size_t>(shares.slices);
  std::vector<double> work(shares.tokens.size(), 0);
  // Each of them counts as a microbatch of every stage.
  for (auto& range : shares.of_stage) range = {0, static_cast<int>(work.size())};
  for (size_t i = 0; i < work.size() * slices; ++i) {
    for (const auto& [kind, times] : {std::pair(ActionKind::kForward, &costs.forward),
                                      std::pair(ActionKind::kBackward, &costs.backward)}) {
      for (size_t s = 0; s < times->size(); ++s) {
        const Action action{.kind = kind,
                            .stage = StageId(static_cast<int32_t>(s)),
                            .microbatch = MicrobatchId(static_cast<int32_t>(i))};
        work[i / slices] += static_cast<double>(OfShare(shares, action, (*times)[s]));
      }
    }
  }
  return work;
}

// The microbatches of all pipes in the order of their numbers in their own pipe.
std::vector<size_t> PlacesInTurn(const MicrobatchShares& shares) {
  std::vector<int> number(shares.tokens.size(), 0);
  for (const auto& [first, count] : shares.of_stage) {
    std::iota(number.begin() + first, number.begin() + first + count, 0);
  }
  std::vector<size_t> places(number.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return number[a] < number[b]; });
  return places;
}

absl::Status CheckNumber(const Plan& plan, const UnequalMicrobatches& microbatches) {
  const int of_step = plan.microbatches_in_step();
  const auto listed = static_cast<int>(microbatches.lengths.size());
  if (listed == of_step) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(microbatches.place, ": a step has ", of_step,
                   of_step == 1 ? " microbatch, and " : " microbatches, and ", listed,
                   listed == 1 ? " is" : " are", " listed; give each its own"));
}

}  // namespace

absl::Status ShareOut(const Plan& plan, const std::vector<StageFormula>& formulas,
                      const std::vector<int64_t>& attention, const CostSpec& spec,
                      CostModel* costs) {
  const UnequalMicrobatches& microbatches = spec.microbatches;
  const bool unequal = !microbatches.empty();
  if (plan.slices == 1 && !unequal) return absl::OkStatus();
  if (unequal) {
    const absl::Status number = CheckNumber(plan, microbatches);
    if (!number.ok()) return number;
  }
  if (!costs->parts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        unequal ? absl::StrCat(microbatches.place, ": microbatches are unequal")
                : "the schedule cuts microbatches into slices",
        ", and costs of parts (F.attn, or those of a model with links inside its layers) are of "
        "whole, equal ones; give costs of F, B, I and W"));
  }
  MicrobatchShares& shares = costs->shares;
  shares.slices = plan.slices;
  SetRanges(plan, &shares);
  if (unequal) {
    SetShares(microbatches, spec.formula ? &spec.formula->model : nullptr, &shares);
  } else {
    for (int k = 0; k < plan.slices; ++k) shares.scores.push_back((2.0 * k + 1) / plan.slices);
  }
  SetAttention(formulas, attention, &shares);
  AddAgain(*costs, &shares);
  if (plan.slices > 1) DivideBySlices(plan.slices, costs);
  const double most = unequal ? *std::max_element(shares.tokens.begin(), shares.tokens.end()) : 1.0;
  for (StageMemory& memory : costs->memory) ScaleValues(most, plan.slices, &memory);
  return absl::OkStatus();
}

UnequalMicrobatches MicrobatchesOf(const OrderCosts& order) {
  UnequalMicrobatches microbatches{.place = "the costs of the order"};
  for (const int64_t factor : order.microbatches) {
    microbatches.lengths.push_back({factor * kFactorOne});
  }
  return microbatches;
}

int64_t OfShare(const MicrobatchShares& shares, const Action& action, int64_t ns) {
  if (!IsOfMicrobatch(action.kind) || !action.microbatch.valid()) return ns;
  const auto slice = static_cast<size_t>(action.microbatch.value % shares.slices);
  const bool unequal = !shares.tokens.empty();
  const size_t microbatch = unequal ? IndexOf(shares, action) : 0;
  double times = unequal ? shares.tokens[microbatch] : 1;
  if (ComputesMicrobatch(action.kind)) {
    const std::vector<double>& attention = shares.attention[static_cast<size_t>(action.kind)];
    const double share = attention.empty() ? 0 : attention[static_cast<size_t>(action.stage.value)];
    const auto slices = static_cast<size_t>(shares.slices);
    times = (1 - share) * times + share * shares.scores[microbatch * slices + slice];
  }
  return std::llround(static_cast<double>(ns) * times);
}

double LargestShare(const MicrobatchShares& shares) {
  double most = 1;
  if (shares.tokens.empty()) return most;
  for (const auto* const of : {&shares.tokens, &shares.scores}) {
    most = std::max(most, *std::max_element(of->begin(), of->end()));
  }
  return most;
}

double FewestTokens(const MicrobatchShares& shares) {
  if (shares.tokens.empty()) return 1;
  return *std::min_element(shares.tokens.begin(), shares.tokens.end());
}

CostModel WithEqualMicrobatches(CostModel costs) {
  MicrobatchShares& shares = costs.shares;
  const auto slices = static_cast<size_t>(shares.slices);
  std::vector<double> mean(slices, 0);
  for (size_t i = 0; i < shares.scores.size(); ++i) {
    mean[i % slices] += shares.scores[i] / static_cast<double>(shares.tokens.size());
  }
  for (size_t i = 0; i < shares.scores.size(); ++i) shares.scores[i] = mean[i % slices];
  std::fill(shares.tokens.begin(), shares.tokens.end(), MeanOf(shares.tokens));
  return costs;
}

CostModel WithSortedMicrobatches(CostModel costs, bool longest_first) {
  const MicrobatchShares before = costs.shares;
  const std::vector<double> work = WorkOfMicrobatches(costs);
  std::vector<size_t> sorted(work.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) {
    return longest_first ? work[a] > work[b] : work[a] < work[b];
  });
  const std::vector<size_t> places = PlacesInTurn(before);
  const auto slices = static_cast<size_t>(before.slices);
  for (size_t i = 0; i < sorted.size(); ++i) {
    costs.shares.tokens[places[i]] = before.tokens[sorted[i]];
    for (size_t k = 0; k < slices; ++k) {
      costs.shares.scores[places[i] * slices + k] = before.scores[sorted[i] * slices + k];
    }
  }
  return costs;
}

}  // namespace stringline
