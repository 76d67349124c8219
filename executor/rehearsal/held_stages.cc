#include "executor/rehearsal/held_stages.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/rehearsal/held_device.h"

namespace stringline {
HeldStages::HeldStages(const Plan& plan, const CostModel& costs, Groups* groups)
    : plan_(plan),
      stages_(plan.stages.size()),
      microbatches_(plan.microbatches),
      chunks_(plan.chunks),
      costs_(costs),
      own_calls_(plan, groups),
      replicas_(plan, Mesh(), groups),
      reductions_ns_(stages_, 0),
      came_(stages_, 0),
      hold_ns_(kComputeKinds * stages_ * microbatches_, 0) {
  if (TakesItsParts(costs)) parts_ = costs.parts;
  FindLatencies(plan, costs);
  for (const uint32_t member : own_calls_.members()) {
    const Action& action = plan.actions[member];
    own_meetings_ns_.push_back(
        OfMicrobatch(costs, action, costs.own.Of(action.kind, action.stage)));
  }
  for (size_t s = 0; s < stages_; ++s) {
    const StageId stage(static_cast<int32_t>(s));
    const bool in_parts = !parts_.empty() && parts_[s].layers > 0;
    buckets_.push_back(in_parts ? BucketsOf(costs, stage) : BucketsMet(costs, stage));
  }
  for (size_t s = 0; s < costs.reduce.size(); ++s) {
    int64_t& ns = reductions_ns_[replicas_.PartOf(StageId(static_cast<int32_t>(s)))];
    ns = std::max(ns, costs.reduce[s]);
  }
  for (size_t begin = 0; begin < plan.actions.size();) {
    const auto group = GroupAt(plan.actions, begin);
    if (IsCompute(group[0].kind) && !IsOwn(group[0].kind)) {
      int64_t cost_ns = GroupCost(costs, group);
      if (!costs.noise.empty()) cost_ns = costs.noise.Of(static_cast<uint32_t>(begin), cost_ns);
      hold_ns_[Index(group[0])] = cost_ns;
    }
    begin += group.size();
  }
}

absl::StatusOr<Piece> HeldStages::Own(const OwnAction& row, const Action& action) {
  if (row.by != By::kAllRanks) {
    const int64_t ns = costs_.own.Of(action.kind, action.stage);
    return Piece{HeldDevice::HoldFor(OfMicrobatch(costs_, action, ns)), {}, {}};
  }
  return Piece{{}, {own_calls_.Of(action)}, {}};
}

void HeldStages::FindLatencies(const Plan& plan, const CostModel& costs) {
  for (const Edge& edge : plan.graph.edges()) {
    const auto latency_ns = [&](ActionKind send) {
      return HopOf(costs, edge, {.kind = send}).latency_ns;
    };
    activation_ns_.push_back(latency_ns(ActionKind::kSendForward));
    gradient_ns_.push_back(latency_ns(ActionKind::kSendBackward));
  }
}

Work HeldStages::InFlight(const Action& recv) const {
  const bool forward = recv.kind == ActionKind::kRecvForward;
  const int64_t ns =
      (forward ? activation_ns_ : gradient_ns_)[static_cast<size_t>(EdgeOf(plan_, recv)->id)];
  return ns == 0 ? Work() : HeldDevice::HoldFor(ns);
}

int HeldStages::layers(StageId stage) const {
  return parts_.empty() ? 0 : static_cast<int>(parts_[stage.value].layers);
}

Piece HeldStages::Compute(const Action& action, LayerPart part) {
  const bool whole = action.kind == ActionKind::kBackward && layers(action.stage) == 0;
  if (whole && part.part == kWPost) return {};  // its B.post is the whole backward
  if (!parts_.empty() && action.kind != ActionKind::kRecompute) {
    const std::array<int64_t, kParts>& ns = parts_[action.stage.value].ns;
    return Piece{HeldDevice::HoldFor((ns[part.part] + (whole ? ns[kWPost] : 0)) / chunks_), {}, {}};
  }
  return Piece{HeldDevice::HoldFor(hold_ns_[Index(action)] / chunks_), {}, {}};
}

absl::StatusOr<Piece> HeldStages::Update(const Action& action) {
  return Piece{HeldDevice::HoldFor(hold_ns_[Index(action)]), {}, {}};
}

absl::StatusOr<Work> HeldStages::Copy(const Action& action) {
  const bool out = action.kind == ActionKind::kOffload;
  const int64_t ns = (out ? costs_.offload : costs_.fetch)[action.stage.value];
  return HeldDevice::HoldFor(OfMicrobatch(costs_, action, ns));
}

bool HeldStages::MeetsBuckets(const Action& collective) const {
  return collective.kind != ActionKind::kReshard && buckets_[collective.stage.value] > 1;
}

int HeldStages::BucketsRead(const Action& action, LayerPart part) {
  return static_cast<int>(
      BucketsNeeded(action.kind, part, layers(action.stage), buckets_[action.stage.value]));
}

std::vector<int> HeldStages::BucketsGiven(const Action& action, LayerPart part) {
  std::vector<int> given;
  if (RowOfPart(part.part).of != ActionKind::kWeightGradient) return given;
  const int of_stage = layers(action.stage);
  const int64_t place = PlaceOf(part, of_stage);
  const int64_t buckets = buckets_[action.stage.value];
  for (int64_t k = 0; k < buckets; ++k) {
    if (PartOfBucket(k, buckets, 2 * of_stage + 1) == place) given.push_back(static_cast<int>(k));
  }
  return given;
}

// The k-th piece needs the k-th bucket, and gives the k-th.
std::vector<BucketPiece> HeldStages::ComputeByBucket(const Action& action, bool gathers,
                                                     bool reduces) {
  const int64_t buckets = buckets_[action.stage.value];
  int64_t all_ns = hold_ns_[Index(action)];
  if (!parts_.empty() && action.kind != ActionKind::kRecompute) {
    all_ns = 0;
    for (const int part : {kFPost, kBPost, kWPost}) {
      if (RunsPart(action.kind, part)) all_ns += parts_[action.stage.value].ns[part];
    }
  }
  std::vector<BucketPiece> pieces;
  for (int k = 0; k < static_cast<int>(buckets); ++k) {
    BucketPiece& piece = pieces.emplace_back();
    piece.work = HeldDevice::HoldFor(BucketNs(all_ns, buckets, k));
    if (gathers) piece.needs = {k};
    if (reduces) piece.gives = {k};
  }
  return pieces;
}

absl::StatusOr<std::vector<Piece>> HeldStages::Collective(const Action& action,
                                                          const Action* inside) {
  if (action.kind == ActionKind::kReduceGrad) return Reduction(action.stage, inside != nullptr);
  const bool free = action.kind == ActionKind::kReshard || costs_.unshard.empty();
  return Held(free ? 0 : costs_.unshard[action.stage.value],
              inside == nullptr ? 1 : buckets_[action.stage.value]);
}

std::vector<Piece> HeldStages::Held(int64_t all_ns, int64_t buckets) {
  std::vector<Piece> pieces;
  for (int64_t k = 0; k < buckets; ++k) {
    pieces.push_back({HeldDevice::HoldFor(BucketNs(all_ns, buckets, k)), {}, {}});
  }
  return pieces;
}

// As in training: a rank joins the reduction with its last replica.
std::vector<Piece> HeldStages::Reduction(StageId stage, bool by_bucket) {
  const std::vector<StageId> copies = replicas_.OnItsRank(stage);
  auto& came = came_[copies[0].value];
  if (++came < static_cast<int>(copies.size())) return std::vector<Piece>(1);
  came = 0;  // for the next step
  const auto part = static_cast<int64_t>(replicas_.PartOf(stage));
  const int64_t buckets = buckets_[stage.value];
  const Replicas::Seat seat = replicas_.OfDense(/*coordinate=*/0, stage);
  if (seat.group == nullptr) {
    return Held(reductions_ns_[static_cast<size_t>(part)], by_bucket ? buckets : 1);
  }
  std::vector<Piece> pieces(1);
  for (int64_t k = 0; k < buckets; ++k) {
    if (by_bucket && k > 0) pieces.emplace_back();
    MemberCall& call = pieces.back().calls.emplace_back(MemberCall{seat.group, seat.member, {}});
    call.call.kind = CallKind::kAllReduce;
    call.call.name = {PrintReduction, this, k * static_cast<int64_t>(stages_) + part};
  }
  return pieces;
}

int64_t HeldStages::ReductionNs(int64_t index) const {
  const auto stages = static_cast<int64_t>(stages_);
  const auto part = static_cast<size_t>(index % stages);
  return BucketNs(reductions_ns_[part], buckets_[part], index / stages);
}

std::string HeldStages::PrintReduction(const void* self, int64_t index) {
  const auto stages = static_cast<int64_t>(static_cast<const HeldStages*>(self)->stages_);
  return absl::StrCat("the gradients of stage ", index % stages);
}

size_t HeldStages::Index(const Action& action) const {
  return (static_cast<size_t>(action.kind) * stages_ + static_cast<size_t>(action.stage.value)) *
             microbatches_ +
         static_cast<size_t>(action.microbatch.value);
}

}  // namespace stringline
