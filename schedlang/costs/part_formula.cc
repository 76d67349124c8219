#include "schedlang/costs/part_formula.h"

#include <cmath>

namespace stringline {
namespace {

// Nanoseconds of a layer's collectives.
struct LayerCollectives {
  double dispatch = 0, combine = 0;
  double input_again = 0;   // gathering the input of attention again,
  double inside_again = 0;  // and that of the feed-forward network
};

bool SharesExperts(const ModelShape& model) { return model.kind == kMoeModel && model.expert > 1; }

LayerCollectives CollectivesOf(const ModelShape& model, const LayerLinks& links, bool of_experts) {
  const auto gather_ns = [&](int64_t bytes) {
    return RingNs(bytes, /*calls=*/1, model.tensor, links.tensor);
  };
  const int64_t activation = ActivationBytes(model);
  const double around = gather_ns(activation);
  double inside = around, exchange = 0;
  if (of_experts && SharesExperts(model)) {
    const int64_t rows = model.top_k * activation;
    inside = gather_ns(rows) + (model.shared_hidden > 0 ? gather_ns(activation) : 0);
    exchange = RingNs(rows / model.tensor, /*calls=*/1, model.expert, links.experts);
  }
  return {around + exchange + inside, inside + exchange + around, around, inside};
}

}  // namespace

bool HasCollectivesInside(const ModelShape& model) {
  return model.tensor > 1 || SharesExperts(model);
}

PartCosts PartsOf(const ModelShape& model, const MachineSpeed& machine, const StagePart& part,
                  const LayerLinks& links) {
  const HalvesFormula halves = HalvesOf(model, machine, part);
  PartCosts parts;
  parts.layers = part.layers;
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
  if (part.layers > 0) {
    const double dense_share =
        static_cast<double>(DenseLayersOf(model, part)) / static_cast<double>(part.layers);
    const auto mean = [&](double LayerCollectives::*ns) {
      return dense_share * dense.*ns + (1 - dense_share) * mixed.*ns;
    };
    const double dispatch = mean(&LayerCollectives::dispatch);
    const double combine = mean(&LayerCollectives::combine);
    parts.ns[kFDispatch] = std::llround(dispatch);
    parts.ns[kFCombine] = std::llround(combine);
    parts.ns[kBDispatch] = std::llround(dispatch + mean(&LayerCollectives::input_again));
    parts.ns[kBCombine] = std::llround(combine + mean(&LayerCollectives::inside_again));
  }
  if (part.head) {
    parts.ns[kFPost] += std::llround(dense.input_again);
    parts.ns[kBPost] += std::llround(2 * dense.input_again);
  }
  return parts;
}

}  // namespace stringline
