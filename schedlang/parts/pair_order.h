// In which order a stage's parts run on the two lanes of its rank: the simulator prices what stands
// here and the executor enqueues it, so that what was simulated is what runs.
//
// A forward beside a backward, layer by layer: the first layer of the F beside the last of the B,
// and so on. Per pair of layers, unless an `overlap` block says otherwise,
//
//   compute  F.attn     B.experts   W.experts   F.experts  B.attn  W.attn
//   network  B.combine  F.dispatch  B.dispatch  F.combine
//
// The layers that one of the two has more run in the same pattern without the other's. B.post
// stands before everything on the compute lane, W.post and then F.post behind everything. (The
// order of Megatron's combined 1F1B and of DualPipe's authors.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/parts/parts.h"

namespace stringline {

// A step starts when the one before it on its lane has ended, and step `after` of the other lane.
struct LaneStep {
  uint8_t part = 0;
  int32_t layer = 0;   // as LayerPart::layer
  int32_t after = -1;  // index into the other lane; -1: it waits for nothing there
};

// Each part once, and both lanes get to their ends.
struct PairOrder {
  std::vector<LaneStep> compute, network;
  const std::vector<LaneStep>& of(Lane lane) const {
    return lane == Lane::kCompute ? compute : network;
  }
};

// A forward of a stage with `forward_layers` beside a backward of one with `backward_layers`.
// `whole`: a B with its W; otherwise an I. `order`: the block of these two actions, which
// CheckOverlap found good; null for the order above.
PairOrder OrderPair(int forward_layers, int backward_layers, bool whole, const Overlap* order);

// The F and the B or I of a group that is just those two, in either order; null in other groups.
struct OverlappedPair {
  const Action* forward = nullptr;
  const Action* backward = nullptr;
};
OverlappedPair PairOf(absl::Span<const Action> group);

// The block of that plan for an F beside a B (`whole`) or an I; null if it has none.
const Overlap* FindOverlap(const Plan& plan, bool whole);

// An action that has the rank for itself, a computation of any kind: one part after the other, the
// weight gradients of a B after all of its input gradient.
PairOrder OrderAlone(ActionKind kind, int layers);

// "compute F.attn B.experts … | network B.combine …", with layers as Print(LayerPart) has them.
std::string Print(const PairOrder& order);

}  // namespace stringline
