// The order of the parts of a group's actions on the two lanes of their rank. The simulator prices
// this order and the executor enqueues it, so a run follows its simulation.
//
// An `overlap` block of the schedule gives the order of the layers' parts. Without one:
//
//   - An F beside a B or I, layer by layer: the first layer of the F beside the last of the B, and
//     so on. Per pair of layers
//
//       compute  F.attn     B.experts   W.experts   F.experts  B.attn  W.attn
//       network  B.combine  F.dispatch  B.dispatch  F.combine
//
//     Surplus layers of the longer action run in the same pattern without the other's parts. B.post
//     precedes everything on the compute lane; W.post and then F.post follow everything. (The order
//     of Megatron's combined 1F1B and of DualPipe's authors.)
//   - Any other group by list scheduling: a free lane takes, of the parts that could start, the one
//     with the longest path behind it. The executor must find the same order and knows no costs: a
//     transfer counts as two computations.
//
// An action of a microbatch in chunks has its parts once a chunk. With chunks, any group, and an
// action alone too, is ordered by list scheduling, or as a block says, in which a part stands for
// those of all chunks.
//
// Gradients of one stage's parameters are added up in the order of the group's actions, so that
// sums have the same bits as those of the actions one after the other. Weight gradients are in the
// parts of W, those of small parameters (norms, routers) in the parts of B and I.
//
// At every moment until the end of a group one of its lanes works, in either case. So a group never
// takes longer than its actions one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/plan/parts.h"

namespace stringline {

// A step starts when the step before it on its lane and step `after` of the other lane have ended.
struct LaneStep {
  uint8_t part = 0;
  int32_t layer = 0;   // as LayerPart::layer
  uint8_t of = 0;      // the index of its action in the group
  uint8_t chunk = 0;   // of its action's microbatch
  int32_t after = -1;  // index into the other lane; -1: no dependency on that lane
};

// Contains each part of each chunk of each action once; both lanes run to their ends.
struct GroupOrder {
  std::vector<LaneStep> compute, network;
  const std::vector<LaneStep>& of(Lane lane) const {
    return lane == Lane::kCompute ? compute : network;
  }
};

// An action of a group, of a stage with so many layers.
struct GroupMember {
  ActionKind kind = ActionKind::kForward;
  int layers = 0;
  StageId stage = {};
  friend auto operator<=>(const GroupMember&, const GroupMember&) = default;
};

// `order`: the overlap of these actions (FindOverlap), accepted by CheckOverlap; null, or by
// default, for the order above. A single action runs part after part, the weight gradients of a B
// after all of its input gradient.
GroupOrder OrderGroup(absl::Span<const GroupMember> group, const Overlap* order, int chunks = 1);

// True for parts that may add to gradients of parameters: those that compute for a B, an I or a W.
bool AddsGradients(int part);

// True if an overlap of the kinds `one` is one of the kinds `other`: the same ones in any order,
// but those that add gradients (B, I and W) in one order, since their sums have it.
bool SameGroup(absl::Span<const ActionKind> one, absl::Span<const ActionKind> other);

// The plan's `overlap` of the group's kinds; null if the plan has none.
const Overlap* FindOverlap(const Plan& plan, absl::Span<const Action> group);

// The plan's overlaps that no group of it has: they change nothing.
std::vector<const Overlap*> UnmatchedOverlaps(const Plan& plan);

// The F and the B or I of a group of exactly these two, in either order; null in other groups.
struct OverlappedPair {
  const Action* forward = nullptr;
  const Action* backward = nullptr;
};
OverlappedPair PairOf(absl::Span<const Action> group);

// True if the group's actions run side by side: a pair, or a group with an `overlap` of the plan.
// The actions of any other group run one after the other.
bool Overlaps(const Plan& plan, absl::Span<const Action> group);

// "compute F.attn B.experts … | network B.combine …", with layers as Print(LayerPart) has them;
// "2.F.attn" if two actions have that part.
std::string Print(const GroupOrder& order);

}  // namespace stringline
