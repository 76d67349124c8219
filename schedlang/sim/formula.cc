#include "schedlang/sim/formula.h"

#include <algorithm>
#include <cmath>

namespace stringline {
namespace {

struct Work {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
};

int64_t Nanoseconds(double flops, double bytes, const MachineSpeed& machine) {
  const double seconds = flops / (machine.flops * machine.efficiency) +
                         (machine.memory_bandwidth > 0 ? bytes / machine.memory_bandwidth : 0);
  return std::llround(seconds * 1e9);
}

}  // namespace

int64_t MessageBytes(const ModelShape& model) {
  return model.microbatch * model.sequence * model.hidden * model.bytes;
}

StageFormula FormulaOf(const ModelShape& model, const MachineSpeed& machine, int64_t layers,
                       bool embedding, bool head) {
  const auto h = static_cast<double>(model.hidden), f = static_cast<double>(model.ffn);
  const double tokens = static_cast<double>(model.microbatch * model.sequence);
  const auto sequence = static_cast<double>(model.sequence);
  const int64_t kv_heads = model.kv_heads > 0 ? model.kv_heads : model.heads;
  const double k = 2 * h * static_cast<double>(kv_heads) / static_cast<double>(model.heads);
  const double active = static_cast<double>(model.active_experts);
  const auto n = static_cast<double>(layers), share = static_cast<double>(model.tensor_parallel);
  const auto vocabulary = static_cast<double>(model.vocabulary);

  const double attention_weights = h * (2 * h + k), expert_weights = 3 * h * f;
  const double head_products = head ? 2 * tokens * h * vocabulary : 0;
  const double products =
      n * 2 * tokens * (attention_weights + active * expert_weights) + head_products;
  const double attention = n * 2 * tokens * sequence * h;
  const double u = tokens * h * static_cast<double>(model.bytes);
  const double moved = n * u * (12 + 2 * k / h + 3 * active * f / h);

  StageFormula stage;
  stage.forward_ns = Nanoseconds((products + attention) / share, moved / share, machine);
  stage.input_gradient_ns =
      Nanoseconds((products + 2.5 * attention) / share, 2 * moved / share, machine);
  stage.weight_gradient_ns = Nanoseconds(products / share, 0, machine);
  const double weights =
      n * (attention_weights + static_cast<double>(model.experts) * expert_weights) +
      (embedding ? h * vocabulary : 0) + (head ? h * vocabulary : 0);
  stage.parameters = std::llround(weights / share);
  stage.saved_for_i = std::llround(n * u * (3 + k / h + 2 * active * f / h) / share);
  stage.saved_for_w = std::llround(n * u * (3 + active * f / h) / share);
  stage.stash = std::llround(n * u * (3 + k / h + 2 * active * f / h) / share);
  return stage;
}

}  // namespace stringline
