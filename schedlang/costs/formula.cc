// A stage's work is added up as numbers of operations and bytes, of attention, of feed-forward
// networks and of the head; times are made of their sums at the end.
#include "schedlang/costs/formula.h"

#include <algorithm>
#include <cmath>

namespace stringline {
namespace {

// Sizes of a layer's feed-forward network.
struct LayerSizes {
  double weights = 0;  // parameters
  double experts = 0;  // among them: the parameters of experts that are shared out
  double router = 0;   // among them: the router's
  double active = 0;   // other parameters that a token meets
  double inner = 0;    // channels that enter the non-linearity: gate and up
  double out = 0;      // channels that leave the non-linearity
};

// Sizes of a network of h x f matrices, gated or not.
LayerSizes NetworkOf(const ModelShape& model, double count, double active, double hidden) {
  const double entries = model.kind == kGptModel ? 1 : 2;
  const double weights = (entries + 1) * static_cast<double>(model.width) * hidden;
  return {count * weights, 0, 0, active * weights, active * entries * hidden, active * hidden};
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
  sizes.router = static_cast<double>(model.width * model.experts);
  sizes.weights += shared.weights + sizes.router;
  sizes.active += shared.active;
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

// Work for a microbatch, of all tensor-parallel ranks together.
struct Work {
  double products = 0;   // floating point operations
  double attention = 0;  // those of queries, keys and values with each other
  double moved = 0;      // bytes
};

Work operator+(const Work& a, const Work& b) {
  return {a.products + b.products, a.attention + b.attention, a.moved + b.moved};
}
Work operator/(const Work& a, double by) {
  return {a.products / by, a.attention / by, a.moved / by};
}

ComputeTimes TimesOf(const Work& work, const ModelShape& model, const MachineSpeed& machine) {
  const auto share = static_cast<double>(model.tensor);
  return {
      Nanoseconds((work.products + work.attention) / share, work.moved / share, machine),
      Nanoseconds((work.products + 2.5 * work.attention) / share, 2 * work.moved / share, machine),
      Nanoseconds(work.products / share, 0, machine)};
}

double Tokens(const ModelShape& model) {
  return static_cast<double>(model.microbatch * model.context);
}

// Sizes of a stage's layers.
class StageSizes {
 public:
  StageSizes(const ModelShape& model, const StagePart& part)
      : model_(model), dense_(DenseLayer(model)), mixed_(ExpertLayer(model)) {
    const int64_t dense = DenseLayersOf(model, part);
    n_dense_ = static_cast<double>(dense);
    n_mixed_ = static_cast<double>(part.layers - dense);
  }

  double layers() const { return n_dense_ + n_mixed_; }
  // The sum of a size over all layers.
  double Over(double LayerSizes::*size) const {
    return n_dense_ * dense_.*size + n_mixed_ * mixed_.*size;
  }
  double AttentionWeights() const {
    return static_cast<double>(model_.width) * (2 * Queries() + Keys());
  }
  double Queries() const { return QueryWidth(model_); }
  double Keys() const {  // and values
    return 2 * Queries() * KeyHeads(model_) / static_cast<double>(model_.heads);
  }

  // The work of all layers' attention, with their routers.
  Work Attention() const {
    const double products = layers() * AttentionWeights() + Over(&LayerSizes::router);
    const double scores = 2 * Tokens(model_) * static_cast<double>(model_.context) * Queries();
    const double h = static_cast<double>(model_.width);
    return {2 * Tokens(model_) * products, layers() * scores,
            Unit() * layers() * (5 + 2 * (Queries() + Keys()) / h)};
  }
  // The work of all layers' feed-forward networks.
  Work Network() const {
    const double h = static_cast<double>(model_.width);
    const double channels = Over(&LayerSizes::inner) / h + Over(&LayerSizes::out) / h;
    return {2 * Tokens(model_) * Over(&LayerSizes::active), 0, Unit() * (layers() * 5 + channels)};
  }

 private:
  double Unit() const { return static_cast<double>(ActivationBytes(model_)); }

  const ModelShape& model_;
  const LayerSizes dense_, mixed_;
  double n_dense_ = 0, n_mixed_ = 0;
};

double TableOf(const ModelShape& model) {
  return static_cast<double>(model.width) * static_cast<double>(model.vocabulary);
}

Work HeadOf(const ModelShape& model, const StagePart& part) {
  return {part.head ? 2 * Tokens(model) * TableOf(model) : 0};
}

}  // namespace

int64_t ActivationBytes(const ModelShape& model) {
  return model.microbatch * model.context * model.width * model.bytes;
}

int64_t MessageBytes(const ModelShape& model) {
  return (ActivationBytes(model) + model.tensor - 1) / model.tensor;
}

int64_t OptimizerBytes(const ModelShape& model, int64_t parameters) {
  return parameters * (model.bytes < 4 ? 12 : 8);
}

int64_t UpdateNs(const ModelShape& model, const MachineSpeed& machine, int64_t parameters) {
  const int64_t weights = parameters * (model.bytes < 4 ? model.bytes : 2 * model.bytes);
  const int64_t moved = 4 * parameters + 2 * OptimizerBytes(model, parameters) + weights;
  return std::llround(static_cast<double>(moved) / machine.memory_bandwidth * 1e9);
}

int64_t DenseLayersOf(const ModelShape& model, const StagePart& part) {
  if (model.kind != kMoeModel) return part.layers;
  return std::clamp<int64_t>(model.first_dense - part.first_layer, 0, part.layers);
}

HalvesFormula HalvesOf(const ModelShape& model, const MachineSpeed& machine,
                       const StagePart& part) {
  HalvesFormula halves;
  if (part.layers > 0) {
    const StageSizes sizes(model, part);
    halves.attention = TimesOf(sizes.Attention() / sizes.layers(), model, machine);
    halves.network = TimesOf(sizes.Network() / sizes.layers(), model, machine);
  }
  halves.head = TimesOf(HeadOf(model, part), model, machine);
  return halves;
}

StageFormula FormulaOf(const ModelShape& model, const MachineSpeed& machine,
                       const StagePart& part) {
  const StageSizes sizes(model, part);
  const Work work = sizes.Attention() + sizes.Network() + HeadOf(model, part);
  const ComputeTimes times = TimesOf(work, model, machine);
  const ComputeTimes scores = TimesOf({0, work.attention, 0}, model, machine);
  const auto share_of = [](int64_t part_ns, int64_t all_ns) {
    return all_ns == 0 ? 0 : static_cast<double>(part_ns) / static_cast<double>(all_ns);
  };
  StageFormula stage;
  stage.forward_scores = share_of(scores.forward_ns, times.forward_ns);
  stage.input_gradient_scores = share_of(scores.input_gradient_ns, times.input_gradient_ns);
  stage.forward_ns = times.forward_ns;
  stage.input_gradient_ns = times.input_gradient_ns;
  stage.weight_gradient_ns = times.weight_gradient_ns;

  const double n = sizes.layers(), q = sizes.Queries(), k = sizes.Keys();
  const auto h = static_cast<double>(model.width);
  const auto share = static_cast<double>(model.tensor);
  const double table = TableOf(model);
  const double positions =
      model.kind == kGptModel && part.embedding ? h * static_cast<double>(model.context) : 0;
  const double weights = n * sizes.AttentionWeights() + sizes.Over(&LayerSizes::weights) +
                         positions + (part.embedding ? table : 0) + (part.head ? table : 0);
  stage.parameters = std::llround(weights / share);
  stage.expert_parameters = std::llround(sizes.Over(&LayerSizes::experts) / share);
  const auto u = static_cast<double>(ActivationBytes(model));
  const double kept = n * (2 + (q + k) / h) + sizes.Over(&LayerSizes::inner) / h;
  const double for_weight = n * (2 + q / h) + sizes.Over(&LayerSizes::out) / h;
  stage.saved_for_i = std::llround(u * kept / share);
  stage.saved_for_w = std::llround(u * for_weight / share);
  stage.stash = std::llround(u * kept / share);
  stage.keys = std::llround(u * n * k / h / share);
  return stage;
}

}  // namespace stringline
