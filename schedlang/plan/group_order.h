// The order of a stage's parts on the two lanes of its rank. The simulator prices this order and
// the executor enqueues it, so a run follows its simulation.
//
// A forward beside a backward, layer by layer: the first layer of the F beside the last of the B,
// and so on. Per pair of layers, unless an `overlap` block says otherwise,
//
//   compute  F.attn     B.experts   W.experts   F.experts  B.attn  W.attn
//   network  B.combine  F.dispatch  B.dispatch  F.combine
//
// Surplus layers of the longer action run in the same pattern without the other's parts. B.post
// precedes everything on the compute lane; W.post and then F.post follow everything. (The order of
// Megatron's combined 1F1B and of DualPipe's authors.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/plan/parts.h"

namespace stringline {

// A step starts when the step before it on its lane and step `after` of the other lane have ended.
struct LaneStep {
  uint8_t part = 0;
  int32_t layer = 0;   // as LayerPart::layer
  int32_t after = -1;  // index into the other lane; -1: no dependency on that lane
};

// Contains each part once; both lanes run to their ends.
struct PairOrder {
  std::vector<LaneStep> compute, network;
  const std::vector<LaneStep>& of(Lane lane) const {
    return lane == Lane::kCompute ? compute : network;
  }
};

// A forward of a stage with `forward_layers` beside a backward of a stage with `backward_layers`.
// `whole`: a B with its W; otherwise an I. `order`: the block of these two actions, accepted by
// CheckOverlap; null for the order above.
PairOrder OrderPair(int forward_layers, int backward_layers, bool whole, const Overlap* order);

// The F and the B or I of a group of exactly these two, in either order; null in other groups.
struct OverlappedPair {
  const Action* forward = nullptr;
  const Action* backward = nullptr;
};
OverlappedPair PairOf(absl::Span<const Action> group);

// The plan's block for an F beside a B (`whole`) or an I; null if the plan has none.
const Overlap* FindOverlap(const Plan& plan, bool whole);

// A computation that has the rank for itself: part after part, the weight gradients of a B after
// all of its input gradient.
PairOrder OrderAlone(ActionKind kind, int layers);

// "compute F.attn B.experts … | network B.combine …", with layers as Print(LayerPart) has them.
std::string Print(const PairOrder& order);

}  // namespace stringline
