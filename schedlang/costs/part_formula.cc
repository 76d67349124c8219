#include "schedlang/costs/part_formula.h"

#include <algorithm>
#include <cmath>

namespace stringline {
namespace {

// Nanoseconds of a layer's collectives.
struct LayerCollectives {
  double around = 0;    // attention: gathering its input, scattering its output
  double inside = 0;    // the same of the feed-forward network
  double exchange = 0;  // rows to their experts, or back
  double keys = 0;      // passing keys and values on, in F
};

bool SharesExperts(const ModelShape& model) { return model.kind == kMoeModel && model.expert > 1; }

// Rows of a rank to the ranks that have their experts whole, or back.
double ExchangeNs(const ModelShape& model, const LayerLinks& links) {
  const auto k = static_cast<double>(model.top_k), groups = static_cast<double>(model.top_groups);
  const auto near = static_cast<double>(links.experts_near);
  const double nodes = static_cast<double>(model.expert) / near;
  const auto row_ns = [&](const RingLink& link) {
    return link.bandwidth == 0
               ? 0
               : static_cast<double>(ActivationBytes(model)) / static_cast<double>(model.tensor) *
                     1e9 / static_cast<double>(link.bandwidth);
  };
  const double rows = RowsKept(model) * k;
  const double inside_ns = rows * (near - 1) / near * row_ns(links.inside);
  const auto calls = static_cast<double>(model.slices);
  if (nodes <= 1) return inside_ns + calls * static_cast<double>(links.inside.latency_ns);
  const double latency_ns =
      calls * static_cast<double>(links.experts.latency_ns + links.inside.latency_ns);
  const double between_ns = (nodes - 1) / nodes * row_ns(links.experts);
  if (groups == 0) return inside_ns / nodes + rows * between_ns + latency_ns;
  const double met = std::min(nodes * (1 - std::pow(1 - 1 / nodes, k)), groups);
  return inside_ns + met * between_ns + latency_ns;
}

// The share of layers without experts.
double DenseShare(const ModelShape& model, const StagePart& part) {
  const auto predicted = static_cast<double>(LayersOf(model, part) - part.layers);
  const double dense =
      static_cast<double>(DenseLayersOf(model, part)) + (model.kind == kMoeModel ? 0 : predicted);
  return dense / static_cast<double>(LayersOf(model, part));
}

LayerCollectives CollectivesOf(const ModelShape& model, const LayerLinks& links, bool of_experts) {
  const auto gather_ns = [&](int64_t bytes) {
    return RingNs(bytes, /*calls=*/model.slices, model.tensor, links.tensor);
  };
  const int64_t activation = ActivationBytes(model);
  const double around = gather_ns(activation);
  const double keys = RingNs(std::llround(KeyBytes(model) * static_cast<double>(model.sequence)),
                             /*calls=*/model.slices, model.sequence, links.sequence);
  double inside = around, exchange = 0;
  if (of_experts && SharesExperts(model)) {
    const double shared = model.shared_hidden > 0 ? gather_ns(activation) : 0;
    if (model.layout == MeshLayout::kMegatron) {
      inside = shared;
      exchange = ExchangeNs(model, links);
    } else {
      const int64_t rows = model.top_k * activation;
      inside = gather_ns(rows) + shared;
      exchange = RingNs(rows / model.tensor, /*calls=*/model.slices, model.expert, links.experts);
    }
  }
  return {around, inside, exchange, keys};
}

}  // namespace

bool HasCollectivesInside(const ModelShape& model) {
  return model.tensor > 1 || model.sequence > 1 || SharesExperts(model);
}

PartCosts PartsOf(const ModelShape& model, const MachineSpeed& machine, const StagePart& part,
                  const LayerLinks& links) {
  const HalvesFormula halves = HalvesOf(model, machine, part);
  PartCosts parts;
  parts.layers = LayersOf(model, part);
  const auto set = [&](Part forward, Part input, Part weight, const ComputeTimes& times) {
    parts.ns[forward] = times.forward_ns;
    parts.ns[input] = times.input_gradient_ns;
    parts.ns[weight] = times.weight_gradient_ns;
  };
  set(kFAttn, kBAttn, kWAttn, halves.attention);
  set(kFExperts, kBExperts, kWExperts, halves.network);
  set(kFPost, kBPost, kWPost, halves.head);
  const LayerCollectives dense = CollectivesOf(model, links, /*of_experts=*/false);
  const LayerCollectives mixed = CollectivesOf(model, links, /*of_experts=*/true);
  if (parts.layers > 0) {
    const double dense_share = DenseShare(model, part);
    const bool megatron = model.layout == MeshLayout::kMegatron;
    const double seen = megatron ? 1 - SpeedOf(machine, model.precision).hidden : 1;
    const bool hides_exchange = model.capacity == 0;
    const auto mean = [&](double LayerCollectives::*ns) {
      return dense_share * dense.*ns + (1 - dense_share) * mixed.*ns;
    };
    const double around = seen * mean(&LayerCollectives::around);
    const double inside = seen * mean(&LayerCollectives::inside);
    const double keys = seen * mean(&LayerCollectives::keys);
    const double exchange = (hides_exchange ? seen : 1) * mean(&LayerCollectives::exchange);
    const double once = around + exchange + inside, again = RecomputedShare(model, part);
    parts.ns[kFDispatch] = std::llround(once + keys);
    parts.ns[kFCombine] = std::llround(once);
    parts.ns[kBDispatch] = std::llround((1 + again) * (once + keys) + keys + around);
    parts.ns[kBCombine] = std::llround((1 + again) * once + inside);
  }
  if (part.head) {
    parts.ns[kFPost] += std::llround(dense.around);
    parts.ns[kBPost] += std::llround(2 * dense.around);
  }
  return parts;
}

}  // namespace stringline
