// A lane is the pattern of one layer pair, repeated; then every step looks up its dependency on the
// other lane. A pattern that runs for one pair runs for all: no part needs a later pair.
#include "schedlang/plan/pair_order.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr Part kDefaultCompute[] = {kFAttn, kBExperts, kWExperts, kFExperts, kBAttn, kWAttn};
constexpr Part kDefaultNetwork[] = {kBCombine, kFDispatch, kBDispatch, kFCombine};

bool IsForward(int part) { return RowOfPart(part).of == ActionKind::kForward; }
bool IsWeight(int part) { return RowOfPart(part).of == ActionKind::kWeightGradient; }

// True if the block is of an F and a B (`whole`) or an I.
bool IsOf(const Overlap& overlap, bool whole) {
  const auto names = [&overlap](ActionKind kind) {
    return std::count(overlap.kinds.begin(), overlap.kinds.end(), kind) == 1;
  };
  return overlap.kinds.size() == 2 && names(ActionKind::kForward) &&
         names(whole ? ActionKind::kBackward : ActionKind::kInputGradient);
}

// The parts of a pair of layers on a lane.
std::vector<Part> PatternOf(const Overlap* order, Lane lane) {
  const bool network = lane == Lane::kNetwork;
  if (order == nullptr) {
    if (network) return {std::begin(kDefaultNetwork), std::end(kDefaultNetwork)};
    return {std::begin(kDefaultCompute), std::end(kDefaultCompute)};
  }
  std::vector<Part> pattern;
  for (const Overlap::Part& named : network ? order->network : order->compute) {
    const std::optional<Part> part = FindPart(named.of, named.name);
    SL_CHECK(part) << PrintedKind(named.of) << "." << named.name;
    pattern.push_back(*part);
  }
  return pattern;
}

// The lanes under construction, and the place of every part.
class LaneWriter {
 public:
  LaneWriter(int forward_layers, int backward_layers)
      : layers_{forward_layers, backward_layers},
        stride_(std::max({forward_layers, backward_layers, 1})),
        places_(static_cast<size_t>(stride_) * kParts, -1) {}

  void Add(int part, int layer) {
    std::vector<LaneStep>& lane = LaneOf(part) == Lane::kNetwork ? order_.network : order_.compute;
    PlaceOf(part, layer) = static_cast<int32_t>(lane.size());
    lane.push_back({static_cast<uint8_t>(part), layer, -1});
  }

  PairOrder Finish() && {
    for (std::vector<LaneStep>* const lane : {&order_.compute, &order_.network}) {
      for (LaneStep& step : *lane) {
        const auto before =
            PartBefore({step.part, step.layer}, layers_[IsForward(step.part) ? 0 : 1]);
        // A W alone depends on an I that is another action.
        if (!before || PlaceOf(before->part, before->layer) < 0) continue;
        const int32_t place = PlaceOf(before->part, before->layer);
        if (LaneOf(before->part) != LaneOf(step.part)) step.after = place;
      }
    }
    return std::move(order_);
  }

 private:
  int32_t& PlaceOf(int part, int layer) {
    return places_[static_cast<size_t>(part) * stride_ + static_cast<size_t>(layer)];
  }

  const std::array<int, 2> layers_;  // the F's, the other's
  const size_t stride_;
  std::vector<int32_t> places_;  // by part, then layer: its index on its lane; -1: it does not run
  PairOrder order_;
};

}  // namespace

PairOrder OrderPair(int forward_layers, int backward_layers, bool whole, const Overlap* order) {
  SL_CHECK(order == nullptr || IsOf(*order, whole)) << Print(*order);
  LaneWriter writer(forward_layers, backward_layers);
  writer.Add(kBPost, 0);
  for (const Lane lane : {Lane::kCompute, Lane::kNetwork}) {
    const std::vector<Part> pattern = PatternOf(order, lane);
    for (int i = 0; i < std::max(forward_layers, backward_layers); ++i) {
      for (const Part part : pattern) {
        const int layer = IsForward(part) ? i : backward_layers - 1 - i;
        const bool is_there = IsForward(part) ? i < forward_layers : layer >= 0;
        if (is_there && (whole || !IsWeight(part))) writer.Add(part, layer);
      }
    }
  }
  if (whole) writer.Add(kWPost, 0);
  writer.Add(kFPost, 0);
  return std::move(writer).Finish();
}

OverlappedPair PairOf(absl::Span<const Action> group) {
  OverlappedPair pair;
  if (group.size() != 2) return pair;
  const bool forward_first = group[0].kind == ActionKind::kForward;
  const Action& f = group[forward_first ? 0 : 1];
  const Action& b = group[forward_first ? 1 : 0];
  const bool backward = b.kind == ActionKind::kBackward || b.kind == ActionKind::kInputGradient;
  if (f.kind == ActionKind::kForward && backward) pair = {&f, &b};
  return pair;
}

const Overlap* FindOverlap(const Plan& plan, bool whole) {
  for (const Overlap& overlap : plan.overlaps) {
    if (IsOf(overlap, whole)) return &overlap;
  }
  return nullptr;
}

PairOrder OrderAlone(ActionKind kind, int layers) {
  SL_CHECK(IsCompute(kind)) << PrintedKind(kind);
  LaneWriter writer(layers, layers);
  if (kind == ActionKind::kForward) {
    for (int layer = 0; layer < layers; ++layer) {
      for (const Part part : {kFAttn, kFDispatch, kFExperts, kFCombine}) writer.Add(part, layer);
    }
    writer.Add(kFPost, 0);
  }
  if (kind == ActionKind::kBackward || kind == ActionKind::kInputGradient) {
    writer.Add(kBPost, 0);
    for (int layer = layers - 1; layer >= 0; --layer) {
      for (const Part part : {kBCombine, kBExperts, kBDispatch, kBAttn}) writer.Add(part, layer);
    }
  }
  if (kind == ActionKind::kBackward || kind == ActionKind::kWeightGradient) {
    writer.Add(kWPost, 0);
    for (int layer = layers - 1; layer >= 0; --layer) {
      for (const Part part : {kWExperts, kWAttn}) writer.Add(part, layer);
    }
  }
  return std::move(writer).Finish();
}

std::string Print(const PairOrder& order) {
  std::string text = "compute";
  for (const LaneStep& step : order.compute) {
    absl::StrAppend(&text, " ", Print(LayerPart{step.part, step.layer}));
  }
  absl::StrAppend(&text, " | network");
  for (const LaneStep& step : order.network) {
    absl::StrAppend(&text, " ", Print(LayerPart{step.part, step.layer}));
  }
  return text;
}

}  // namespace stringline
