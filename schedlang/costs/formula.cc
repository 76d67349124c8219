// Half a layer is a list of matrix products, attention and bytes that are moved, each with its time
// in F, I and W on one rank; a stage is the sum of its halves and its head. Sizes of what a stage
// keeps are added up beside it.
#include "schedlang/costs/formula.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stringline {
namespace {

// Sizes of a layer's feed-forward network.
struct LayerSizes {
  double weights = 0;  // parameters
  double experts = 0;  // among them: the parameters of experts that are shared out
  double inputs = 0;   // inputs of networks, in units of the width
  double inner = 0;    // channels that enter the non-linearity: gate and up
  double out = 0;      // channels that leave the non-linearity
};

// The share of a layer's waits for experts that stays where every expert has a known number of
// rows.
constexpr double kWaitWithCapacity = 0.25;

double Entries(const ModelShape& model) { return model.kind == kGptModel ? 1 : 2; }

// Sizes of a network of h x f matrices, gated or not.
LayerSizes NetworkOf(const ModelShape& model, double count, double active, double hidden) {
  const double weights = (Entries(model) + 1) * static_cast<double>(model.width) * hidden;
  return {count * weights, 0, active, active * Entries(model) * hidden, active * hidden};
}

double DenseHidden(const ModelShape& model) {
  return static_cast<double>(model.kind == kGptModel ? 4 * model.width : model.hidden);
}

LayerSizes DenseLayer(const ModelShape& model) {
  return NetworkOf(model, 1, 1, DenseHidden(model));
}

LayerSizes ExpertLayer(const ModelShape& model) {
  if (model.kind != kMoeModel) return {};
  LayerSizes sizes = NetworkOf(model, static_cast<double>(model.experts),
                               RowsKept(model) * static_cast<double>(model.top_k),
                               static_cast<double>(model.expert_hidden));
  // Tensor-parallel ranks have a slice of every expert of theirs, or whole ones.
  sizes.weights /= static_cast<double>(model.expert);
  if (model.layout == MeshLayout::kMegatron) sizes.weights *= static_cast<double>(model.tensor);
  sizes.experts = sizes.weights;
  const LayerSizes shared = NetworkOf(model, 1, 1, static_cast<double>(model.shared_hidden));
  sizes.weights += shared.weights + static_cast<double>(model.width * model.experts);
  sizes.inputs += model.shared_hidden > 0 ? 1 : 0;
  sizes.inner += shared.inner;
  sizes.out += shared.out;
  return sizes;
}

bool IsLatent(const ModelShape& model) { return model.kv_rank > 0; }

double HeadWidth(const ModelShape& model) {
  return model.head_dim > 0 ? static_cast<double>(model.head_dim)
                            : static_cast<double>(model.width) / static_cast<double>(model.heads);
}

// Channels of attention.
struct AttentionSizes {
  double queries = 0;  // of all heads
  double keys = 0;     // with values
  double result = 0;
  double low = 0;  // of latent vectors, with the positions' keys
  double weights = 0;
};
AttentionSizes AttentionOf(const ModelShape& model) {
  const auto h = static_cast<double>(model.width), heads = static_cast<double>(model.heads);
  const double d = HeadWidth(model);
  if (!IsLatent(model)) {
    const auto kv = static_cast<double>(model.kv_heads > 0 ? model.kv_heads : model.heads);
    return {heads * d, 2 * kv * d, heads * d, 0, h * (2 * heads * d + 2 * kv * d)};
  }
  const auto q_rank = static_cast<double>(model.q_rank),
             kv_rank = static_cast<double>(model.kv_rank);
  const auto r = static_cast<double>(model.rope_dim);
  const double v = model.value_dim > 0 ? static_cast<double>(model.value_dim) : d;
  const double low = q_rank + kv_rank + r;
  const double up = (q_rank > 0 ? q_rank : h) * heads * (d + r) + kv_rank * heads * (d + v);
  return {heads * (d + r), heads * (d + r + v), heads * v, low, h * low + up + heads * v * h};
}

double Tokens(const ModelShape& model) {
  return static_cast<double>(model.microbatch * model.context);
}

// A rank's share of a microbatch's tokens, of those that it computes with others a part.
double TokensOfRank(const ModelShape& model) {
  return Tokens(model) / static_cast<double>(model.sequence * model.tensor);
}

// Nanoseconds.
struct Times {
  double forward = 0, input = 0, weight = 0;

  friend Times operator+(const Times& a, const Times& b) {
    return {a.forward + b.forward, a.input + b.input, a.weight + b.weight};
  }
  friend Times operator*(double by, const Times& a) {
    return {by * a.forward, by * a.input, by * a.weight};
  }
  ComputeTimes Rounded() const {
    return {std::llround(forward), std::llround(input), std::llround(weight)};
  }
};

// The times of one rank's work, added up.
class RankWork {
 public:
  RankWork(const ModelShape& model, const MachineSpeed& machine)
      : machine_(machine),
        narrow_(IsNarrow(model.precision)),
        speed_(SpeedOf(machine, model.precision)),
        wide_(SpeedOf(machine, Precision::kBf16)),
        share_(static_cast<double>(model.tensor)),
        slices_(static_cast<double>(model.slices)) {}

  const Times& times() const { return times_; }

  // `groups` products alike, of m x k by k x n; each slice has its part of the m rows.
  void Multiply(double rows, double k, double n, double groups = 1) {
    times_ = times_ + slices_ * OfProducts(rows / slices_, k, n, groups);
  }
  // The same in 16 bits whatever the precision.
  void MultiplyWide(double m, double k, double n) {
    const bool narrow = std::exchange(narrow_, false);
    Multiply(m, k, n);
    narrow_ = narrow;
  }
  // Operations of all tensor-parallel ranks, `more` times as many in I.
  void Attend(double flops, double more) {
    const double rate = wide_.flops * share_;
    const double forward = machine_.attention > 0 ? machine_.attention : wide_.efficiency;
    const double input = machine_.attention_gradient > 0 ? machine_.attention_gradient : forward;
    times_.forward += flops / rate / forward * 1e9;
    times_.input += more * flops / rate / input * 1e9;
  }
  // Bytes of all tensor-parallel ranks, in F; twice as many in I.
  void Move(double bytes) { Move(bytes, 2 * bytes); }
  void Move(double forward, double input) {
    times_.forward += MovedNs(forward / share_);
    times_.input += MovedNs(input / share_);
  }
  void WaitForExperts(double experts) {  // as Megatron does, in every slice
    const double ns = slices_ * experts * static_cast<double>(speed_.experts_ns);
    times_.forward += ns / 3;
    times_.input += 2 * ns / 3;
  }

 private:
  double MovedNs(double bytes) const {
    const double rate = machine_.memory_bandwidth * machine_.memory_efficiency;
    return rate > 0 ? bytes / rate * 1e9 : 0;
  }

  Times OfProducts(double m, double k, double n, double groups) const {
    const ProductSpeed& speed = narrow_ ? speed_ : wide_;
    const double bytes = groups * (m * k + k * n + m * n) * 2;
    const auto product_ns = [&](double rows, double columns) {
      const double ns = 2 * m * k * n * groups / speed.flops / speed.efficiency * 1e9 /
                        FilledShare(rows, columns, groups);
      return machine_.processors > 0 ? std::max(ns, MovedNs(bytes)) : ns;
    };
    return {product_ns(m, n) + (narrow_ ? MovedNs(4 * m * k * groups) : 0),
            product_ns(m, k) + (narrow_ ? MovedNs(4 * m * n * groups) : 0), product_ns(k, n)};
  }

  // The share of the machine that tiles of so many results keep busy.
  double FilledShare(double rows, double columns, double groups) const {
    if (machine_.processors == 0) return 1;
    const auto share = [&](double high, double wide) {
      const double tiles = groups * std::ceil(rows / high) * std::ceil(columns / wide);
      const auto at_once = static_cast<double>(machine_.processors);
      return groups * rows * columns / (high * wide) / (std::ceil(tiles / at_once) * at_once);
    };
    return std::max({share(128, 256), share(256, 128), 0.9 * share(128, 128)});
  }

  const MachineSpeed& machine_;
  bool narrow_;
  const ProductSpeed speed_, wide_;
  const double share_, slices_;
  Times times_;
};

// The work of a layer's halves and of the head, on one rank.
class LayerWork {
 public:
  LayerWork(const ModelShape& model, const MachineSpeed& machine)
      : model_(model),
        machine_(machine),
        sizes_(AttentionOf(model)),
        h_(static_cast<double>(model.width)),
        tokens_(Tokens(model) / static_cast<double>(model.sequence)),
        tensor_(static_cast<double>(model.tensor)) {}

  // Queries, keys and values with each other, all ranks together.
  double Scores() const {
    const auto context = static_cast<double>(model_.context);
    const double keys_read = sizes_.queries + sizes_.result;
    const double whole = tokens_ * context * keys_read * (model_.writes_scores ? 2 : 1);
    if (model_.window == 0) return whole;
    const auto window = static_cast<double>(std::min(model_.window, model_.context));
    return (whole + std::min(whole, 2 * tokens_ * window * keys_read)) / 2;
  }

  Times Attention(bool routes) const {
    RankWork work(model_, machine_);
    if (IsLatent(model_)) {
      work.Multiply(tokens_, h_, sizes_.low);
      AddLast(&work);
    } else {
      work.Multiply(tokens_, h_, (sizes_.queries + sizes_.keys) / tensor_);
    }
    work.Multiply(tokens_, sizes_.result / tensor_, h_);
    if (routes) work.MultiplyWide(tokens_ / tensor_, h_, static_cast<double>(model_.experts));
    AddScores(&work);
    if (model_.writes_scores) {
      const double scores = tokens_ * static_cast<double>(model_.context * model_.heads);
      work.Move(13 * scores, 19 * scores);
    }
    work.Move(Unit() * (5 + 2 * (sizes_.queries + sizes_.keys) / h_));
    return work.times();
  }
  Times Dense() const {
    RankWork work(model_, machine_);
    AddNetwork(DenseHidden(model_), &work);
    work.Move(Unit() * 5);
    return work.times();
  }
  Times Experts() const {
    RankWork work(model_, machine_);
    const double top_k = RowsKept(model_) * static_cast<double>(model_.top_k);
    const auto hidden = static_cast<double>(model_.expert_hidden);
    const bool whole = model_.layout == MeshLayout::kMegatron;
    const double here = static_cast<double>(model_.experts) / static_cast<double>(model_.expert);
    const double rows = tokens_ * top_k / here / (whole ? tensor_ : 1);
    const double f = whole ? hidden : hidden / tensor_;
    work.Multiply(rows, h_, Entries(model_) * f, here);
    work.Multiply(rows, f, h_, here);
    work.Move(Unit() * top_k * ((Entries(model_) + 1) * hidden / h_ + 6));
    if (model_.shared_hidden > 0) AddNetwork(static_cast<double>(model_.shared_hidden), &work);
    work.Move(Unit() * 5);
    if (whole) work.WaitForExperts(here * (model_.capacity > 0 ? kWaitWithCapacity : 1));
    return work.times();
  }
  Times Head() const {
    const auto vocabulary = static_cast<double>(model_.vocabulary);
    RankWork work(model_, machine_);
    work.MultiplyWide(tokens_, h_, vocabulary / tensor_);
    work.Move(4 * tokens_ * vocabulary);
    return work.times();
  }
  // The product that enters a layer of a further predicted token.
  Times EntryOfPredicted() const {
    RankWork work(model_, machine_);
    work.Multiply(tokens_, 2 * h_, h_ / tensor_);
    return work.times();
  }
  Times OfScores() const {
    RankWork work(model_, machine_);
    AddScores(&work);
    return work.times();
  }
  // F's work that is done again where layers do what is cheap again.
  double CheapNs(bool experts) const {
    RankWork work(model_, machine_);
    work.Move(Unit() * 6);
    const LayerSizes network = experts ? ExpertLayer(model_) : DenseLayer(model_);
    work.Move(Unit() * (network.inner + network.out) / h_);
    if (IsLatent(model_)) AddLast(&work);
    return work.times().forward;
  }

 private:
  double Unit() const { return tokens_ * h_ * static_cast<double>(model_.bytes); }

  // Attention that is not fused finds its scores again where it wrote them.
  void AddScores(RankWork* work) const { work->Attend(Scores(), model_.writes_scores ? 2 : 2.5); }
  // Latent attention's products behind the latent vectors.
  void AddLast(RankWork* work) const {
    const auto q_rank = static_cast<double>(model_.q_rank);
    work->Multiply(tokens_, q_rank > 0 ? q_rank : h_, sizes_.queries / tensor_);
    const double rope = static_cast<double>(model_.heads * model_.rope_dim);
    work->Multiply(tokens_, static_cast<double>(model_.kv_rank), (sizes_.keys - rope) / tensor_);
  }
  void AddNetwork(double hidden, RankWork* work) const {
    work->Multiply(tokens_, h_, Entries(model_) * hidden / tensor_);
    work->Multiply(tokens_, hidden / tensor_, h_);
    work->Move(Unit() * (Entries(model_) + 1) * hidden / h_);
  }

  const ModelShape& model_;
  const MachineSpeed& machine_;
  const AttentionSizes sizes_;
  const double h_, tokens_, tensor_;
};

// Layers of a stage by kind, those of further predicted tokens among them.
struct LayerCounts {
  double dense = 0, experts = 0, predicted = 0;
  double all() const { return dense + experts; }
};
LayerCounts CountsOf(const ModelShape& model, const StagePart& part) {
  LayerCounts counts;
  counts.dense = static_cast<double>(DenseLayersOf(model, part));
  counts.experts = static_cast<double>(part.layers) - counts.dense;
  counts.predicted = part.head ? static_cast<double>(model.predicted) : 0;
  (model.kind == kMoeModel ? counts.experts : counts.dense) += counts.predicted;
  return counts;
}

double TableOf(const ModelShape& model) {
  return static_cast<double>(model.width) * static_cast<double>(model.vocabulary);
}

// The share of the stage's layers that do their F again.
double RecomputedShare(const ModelShape& model, double layers) {
  return layers == 0 ? 0 : std::min(1.0, static_cast<double>(model.recomputed_layers) / layers);
}

// Further layers of a stage, whose values wait on the host.
double HostedShare(const ModelShape& model, double layers) {
  if (layers == 0) return 0;
  const double hosted = static_cast<double>(model.hosted_layers) / layers;
  return std::min(hosted, 1 - RecomputedShare(model, layers));
}

// A layer's bytes of a microbatch on all ranks that share it: for I, for W, and from I to W.
struct Kept {
  double for_input = 0, for_weight = 0, stash = 0;
  double kept() const { return for_input + for_weight; }  // of an F
};
Kept KeptOf(const ModelShape& model, const LayerSizes& network) {
  const AttentionSizes sizes = AttentionOf(model);
  const auto h = static_cast<double>(model.width), wide = static_cast<double>(model.bytes);
  const double narrow = model.precision == Precision::kNvfp4 ? 0.5 : 1;
  const double kept = IsNarrow(model.precision) ? narrow : wide;
  const bool cheap = model.recomputes_cheap, latent = IsLatent(model);
  Kept layer;
  layer.for_input = wide * (2 * h + network.inner + 2 * sizes.low);
  if (!cheap || !latent) layer.for_input += wide * (sizes.queries + sizes.keys);
  if (IsNarrow(model.precision)) layer.for_input += wide * sizes.result;
  layer.for_weight = kept * sizes.result;
  if (model.writes_scores) {  // the softmax, its dropout's mask and result
    layer.for_input += 5 * static_cast<double>(model.context * model.heads);
  }
  // A row that goes to an expert is kept there; what the gate gave is made again, as norms are.
  const double alone = network.inputs > 1 ? network.inputs : 0;
  layer.for_weight += kept * (cheap ? alone * h : h + network.inputs * h + network.out);
  layer.stash = kept * (2 * h + sizes.queries + sizes.keys + network.inner);
  return layer;
}

// The times of a layer, as the mean of a stage's, and of its head.
struct Halves {
  Times attention, network, head;
};
Halves TimesOfHalves(const ModelShape& model, const MachineSpeed& machine, const StagePart& part) {
  const LayerWork work(model, machine);
  const LayerCounts counts = CountsOf(model, part);
  Halves halves;
  if (const double layers = counts.all(); layers > 0) {
    const double dense = counts.dense / layers, experts = counts.experts / layers;
    const double again = RecomputedShare(model, layers);
    if (dense > 0) {
      halves.attention = dense * work.Attention(/*routes=*/false);
      halves.network = dense * work.Dense();
    }
    if (experts > 0) {
      halves.attention = halves.attention + experts * work.Attention(/*routes=*/true);
      halves.network = halves.network + experts * work.Experts();
    }
    halves.attention.input += again * halves.attention.forward;
    halves.network.input += again * halves.network.forward;
    if (model.recomputes_cheap) {
      halves.network.input += (1 - again) * (dense * work.CheapNs(/*experts=*/false) +
                                             experts * work.CheapNs(/*experts=*/true));
    }
    const double hosted = HostedShare(model, layers);
    if (hosted > 0) {
      const Kept of_dense = KeptOf(model, DenseLayer(model));
      const Kept of_mixed = KeptOf(model, ExpertLayer(model));
      const double copy_ns = TokensOfRank(model) *
                             (dense * of_dense.kept() + experts * of_mixed.kept()) /
                             machine.host_bandwidth * 1e9;
      const Times layer = halves.attention + halves.network;
      halves.network.forward += hosted * std::max(0.0, copy_ns - layer.forward);
      halves.network.input += hosted * std::max(0.0, copy_ns - layer.input - layer.weight);
    }
  }
  if (part.head) {
    halves.head = (1 + counts.predicted) * work.Head() + counts.predicted * work.EntryOfPredicted();
  }
  return halves;
}

}  // namespace

double RowsKept(const ModelShape& model) {
  if (model.capacity == 0 || model.layout == MeshLayout::kOwn) return 1;
  return static_cast<double>(model.capacity) * 1e-6;
}

int64_t ActivationBytes(const ModelShape& model) {
  return model.microbatch * model.context / model.sequence * model.width * model.bytes;
}

ProductSpeed SpeedOf(const MachineSpeed& machine, Precision precision) {
  if (IsNarrow(precision)) {
    return machine.narrow[static_cast<size_t>(precision) - static_cast<size_t>(Precision::kFp8)];
  }
  return {machine.flops, machine.efficiency, machine.hidden, machine.experts_ns};
}

double KeyBytes(const ModelShape& model) {
  return TokensOfRank(model) * AttentionOf(model).keys * static_cast<double>(model.bytes);
}

int64_t LayersOf(const ModelShape& model, const StagePart& part) {
  return part.layers + (part.head ? model.predicted : 0);
}

double RecomputedShare(const ModelShape& model, const StagePart& part) {
  return RecomputedShare(model, CountsOf(model, part).all());
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
  const Halves halves = TimesOfHalves(model, machine, part);
  return {halves.attention.Rounded(), halves.network.Rounded(), halves.head.Rounded()};
}

StageFormula FormulaOf(const ModelShape& model, const MachineSpeed& machine,
                       const StagePart& part) {
  const LayerCounts counts = CountsOf(model, part);
  const Halves halves = TimesOfHalves(model, machine, part);
  const ComputeTimes times =
      (counts.all() * (halves.attention + halves.network) + halves.head).Rounded();
  const auto share_of = [](double part_ns, int64_t all_ns) {
    return all_ns == 0 ? 0 : part_ns / static_cast<double>(all_ns);
  };
  StageFormula stage;
  stage.forward_ns = times.forward_ns;
  stage.input_gradient_ns = times.input_gradient_ns;
  stage.weight_gradient_ns = times.weight_gradient_ns;
  const Times scores = counts.all() * LayerWork(model, machine).OfScores();
  stage.forward_scores = share_of(scores.forward, stage.forward_ns);
  stage.input_gradient_scores = share_of(scores.input, stage.input_gradient_ns);

  const AttentionSizes sizes = AttentionOf(model);
  const LayerSizes dense = DenseLayer(model), mixed = ExpertLayer(model);
  const auto h = static_cast<double>(model.width);
  const auto share = static_cast<double>(model.tensor);
  const double table = TableOf(model);
  const double positions =
      model.kind == kGptModel && part.embedding ? h * static_cast<double>(model.context) : 0;
  const double weights = counts.all() * sizes.weights + counts.dense * dense.weights +
                         counts.experts * mixed.weights + counts.predicted * 2 * h * h + positions +
                         (part.embedding ? table : 0) + (part.head ? table : 0);
  stage.parameters = std::llround(weights / share);
  stage.expert_parameters = std::llround(counts.experts * mixed.experts / share);

  const double tokens = TokensOfRank(model);
  const double recomputed = RecomputedShare(model, counts.all());
  const Kept of_dense = KeptOf(model, dense), of_mixed = KeptOf(model, mixed);
  const auto kept = [&](double Kept::*bytes) {
    return tokens * (counts.dense * of_dense.*bytes + counts.experts * of_mixed.*bytes);
  };
  const auto bytes = static_cast<double>(model.bytes);
  const double inputs = tokens * recomputed * counts.all() * h * bytes;
  const double of_head = part.head ? tokens * (1 + counts.predicted) * bytes : 0;
  const double stays = 1 - recomputed - HostedShare(model, counts.all());
  stage.saved_for_i = std::llround(stays * kept(&Kept::for_input) + inputs +
                                   of_head * static_cast<double>(model.vocabulary));
  stage.saved_for_w = std::llround(stays * kept(&Kept::for_weight) + of_head * h);
  stage.stash = std::llround(kept(&Kept::stash) + (1 - stays) * kept(&Kept::for_weight));
  stage.keys = std::llround(tokens * stays * counts.all() * sizes.keys * bytes);
  return stage;
}

}  // namespace stringline
