#include "schedlang/costs/formula.h"

#include <algorithm>
#include <cmath>

namespace stringline {
namespace {

// Sizes of a layer's feed-forward network.
struct LayerSizes {
  double weights = 0;  // parameters
  double experts = 0;  // among them: the parameters of experts that are shared out
  double active = 0;   // parameters that a token meets
  double inner = 0;    // channels that enter the non-linearity: gate and up
  double out = 0;      // channels that leave the non-linearity
};

// Sizes of a network of h x f matrices, gated or not.
LayerSizes NetworkOf(const ModelShape& model, double count, double active, double hidden) {
  const double entries = model.kind == kGptModel ? 1 : 2;
  const double weights = (entries + 1) * static_cast<double>(model.width) * hidden;
  return {count * weights, 0, active * weights, active * entries * hidden, active * hidden};
}

LayerSizes DenseLayer(const ModelShape& model) {
  const int64_t hidden = model.kind == kGptModel ? 4 * model.width : model.hidden;
  return NetworkOf(model, 1, 1, static_cast<double>(hidden));
}

LayerSizes ExpertLayer(const ModelShape& model) {
  if (model.kind != kMoeModel) return {};
  LayerSizes sizes =
      NetworkOf(model, static_cast<double>(model.experts), static_cast<double>(model.top_k),
                static_cast<double>(model.expert_hidden));
  sizes.weights /= static_cast<double>(model.expert);
  sizes.experts = sizes.weights;
  const LayerSizes shared = NetworkOf(model, 1, 1, static_cast<double>(model.shared_hidden));
  const double router = static_cast<double>(model.width * model.experts);
  sizes.weights += shared.weights + router;
  sizes.active += shared.active + router;
  sizes.inner += shared.inner;
  sizes.out += shared.out;
  return sizes;
}

double QueryWidth(const ModelShape& model) {
  const int64_t channels = model.head_dim > 0 ? model.heads * model.head_dim : model.width;
  return static_cast<double>(channels);
}

double KeyHeads(const ModelShape& model) {
  return static_cast<double>(model.kv_heads > 0 ? model.kv_heads : model.heads);
}

int64_t Nanoseconds(double flops, double bytes, const MachineSpeed& machine) {
  const double seconds = flops / (machine.flops * machine.efficiency) +
                         (machine.memory_bandwidth > 0 ? bytes / machine.memory_bandwidth : 0);
  return std::llround(seconds * 1e9);
}

}  // namespace

int64_t MessageBytes(const ModelShape& model) {
  return model.microbatch * model.context * model.width * model.bytes;
}

int64_t OptimizerBytes(const ModelShape& model, int64_t parameters) {
  return parameters * (model.bytes < 4 ? 12 : 8);
}

StageFormula FormulaOf(const ModelShape& model, const MachineSpeed& machine,
                       const StagePart& part) {
  const LayerSizes dense = DenseLayer(model), mixed = ExpertLayer(model);
  const int64_t dense_until = model.kind == kMoeModel ? model.first_dense : INT64_MAX;
  const auto n_dense =
      static_cast<double>(std::clamp<int64_t>(dense_until - part.first_layer, 0, part.layers));
  const double n_mixed = static_cast<double>(part.layers) - n_dense;
  const double n = n_dense + n_mixed;
  const auto over = [&](double LayerSizes::*size) {
    return n_dense * dense.*size + n_mixed * mixed.*size;
  };

  const auto h = static_cast<double>(model.width);
  const auto share = static_cast<double>(model.tensor);
  const double tokens = static_cast<double>(model.microbatch * model.context);
  const double q = QueryWidth(model), k = 2 * q * KeyHeads(model) / model.heads;
  const double attention_weights = h * (2 * q + k);
  const double table = h * static_cast<double>(model.vocabulary);
  const double products =
      2 * tokens * (n * attention_weights + over(&LayerSizes::active) + (part.head ? table : 0));
  const double attention = n * 2 * tokens * static_cast<double>(model.context) * q;
  const double u = tokens * h * static_cast<double>(model.bytes);
  const double moved =
      u * (n * (10 + 2 * (q + k) / h) + over(&LayerSizes::inner) / h + over(&LayerSizes::out) / h);

  StageFormula stage;
  stage.forward_ns = Nanoseconds((products + attention) / share, moved / share, machine);
  stage.input_gradient_ns =
      Nanoseconds((products + 2.5 * attention) / share, 2 * moved / share, machine);
  stage.weight_gradient_ns = Nanoseconds(products / share, 0, machine);
  const double positions =
      model.kind == kGptModel && part.embedding ? h * static_cast<double>(model.context) : 0;
  const double weights = n * attention_weights + over(&LayerSizes::weights) + positions +
                         (part.embedding ? table : 0) + (part.head ? table : 0);
  stage.parameters = std::llround(weights / share);
  stage.expert_parameters = std::llround(over(&LayerSizes::experts) / share);
  const double kept = n * (2 + (q + k) / h) + over(&LayerSizes::inner) / h;
  stage.saved_for_i = std::llround(u * kept / share);
  stage.saved_for_w = std::llround(u * (n * (2 + q / h) + over(&LayerSizes::out) / h) / share);
  stage.stash = std::llround(u * kept / share);
  return stage;
}

}  // namespace stringline
