#include "schedlang/costs/slices.h"

#include <cmath>

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
    if (memory[MemoryClass::kSliceKeyGrad] == 0) {
      memory[MemoryClass::kSliceKeyGrad] = memory[MemoryClass::kSliceKeys];
    }
    const auto share = [slices](int64_t bytes) { return (bytes + slices - 1) / slices; };
    for (int c = 0; c < kMemoryClasses; ++c) {
      if (!IsOfMicrobatch(static_cast<MemoryClass>(c))) continue;
      memory.bytes[static_cast<size_t>(c)] = share(memory.bytes[static_cast<size_t>(c)]);
    }
    memory.remade_for_input = share(memory.remade_for_input);
    memory.remade_for_weight = share(memory.remade_for_weight);
  }
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

}  // namespace

absl::Status CutIntoSlices(const Plan& plan, const std::vector<StageFormula>& formulas,
                           const std::vector<int64_t>& attention, CostModel* costs) {
  if (plan.slices == 1) return absl::OkStatus();
  if (!costs->parts.empty()) {
    return absl::InvalidArgumentError(
        "the schedule cuts microbatches into slices, and costs of parts (F.attn, or those of a "
        "model with links inside its layers) are of whole ones; give costs of F, B, I and W");
  }
  DivideBySlices(plan.slices, costs);
  for (int k = 0; k < plan.slices; ++k) costs->scores.push_back((2.0 * k + 1) / plan.slices);
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kRecompute,
                                ActionKind::kInputGradient, ActionKind::kBackward}) {
    std::vector<double>& shares = costs->attention[static_cast<size_t>(kind)];
    shares = SharesOf(kind, formulas);
    if (attention.empty()) continue;
    shares.clear();
    for (const int64_t share : attention) shares.push_back(static_cast<double>(share) / 1e6);
  }
  return absl::OkStatus();
}

int64_t OfSlice(const CostModel& costs, const Action& action, int64_t ns) {
  if (costs.scores.empty() || !ComputesMicrobatch(action.kind)) return ns;
  const std::vector<double>& shares = costs.attention[static_cast<size_t>(action.kind)];
  if (shares.empty()) return ns;
  const double share = shares[static_cast<size_t>(action.stage.value)];
  const size_t slice = static_cast<size_t>(action.microbatch.value) % costs.scores.size();
  return std::llround(static_cast<double>(ns) * (1 - share + share * costs.scores[slice]));
}

}  // namespace stringline
