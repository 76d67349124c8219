// REDUCE_GRAD: a rank adds up what its own copies of a stage have, then all ranks that hold one add
// up theirs, then every copy gets the sum. UNSHARD: the members of a shard group give each other
// their pieces. Both go bucket by bucket, in one order everywhere.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/programs/stages.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

absl::StatusOr<Piece> Stages::Collective(const Action& action) {
  switch (action.kind) {
    case ActionKind::kReduceGrad:
      return ReduceGrads(action.stage);
    case ActionKind::kUnshard:
      return gathers() ? Unshard(action.stage) : Piece();
    case ActionKind::kReshard:
      return Piece();
    default:
      return StageWork::Collective(action);
  }
}

Piece Stages::ReduceGrads(StageId of) {
  Piece piece;
  std::vector<StageId> copies = seat_.replicas->OnItsRank(of);
  const StageId first = copies[0];
  came_to_sum_.resize(stages_.size());
  if (++came_to_sum_[first.value] < static_cast<int>(copies.size())) return piece;
  const Stage& stage = stages_[first.value];
  const std::vector<Bucket>& buckets = stage.pieces.buckets();
  for (size_t b = 0; b < buckets.size(); ++b) {
    const Replicas::Seat seat = buckets[b].experts
                                    ? seat_.replicas->OfExperts(seat_.coordinate, first)
                                    : seat_.replicas->OfDense(seat_.coordinate, first);
    if (seat.group == nullptr) continue;
    piece.calls.push_back(SumOf(stage, buckets[b], seat));
    piece.calls.back().call.name = {PrintGradients, nullptr, NameOfBucket(first, b)};
  }
  if (copies.size() > 1) {
    copies_.push_back({this, std::move(copies)});
    piece.work = {AddUp, &copies_.back(), 0};
    piece.after = {HandOut, &copies_.back(), 0};
  }
  return piece;
}

// In its place; of gradients that are shared out only the own piece.
MemberCall Stages::SumOf(const Stage& stage, const Bucket& bucket, const Replicas::Seat& seat) {
  MemberCall sum{seat.group, seat.member, {}};
  char* const whole = stage.grads + bucket.at;
  sum.call.kind = CallKind::kAllReduce;
  sum.call.from = sum.call.to = whole;
  sum.call.bytes = bucket.pieces.begin.back();
  if (sharing_.sharding < Sharding::kGradients) return sum;
  Pieces& pieces = summed_pieces_.emplace_back(bucket.pieces);
  pieces.stride = seat.stride;
  SL_CHECK(pieces.Of(seat.member) == seat_.shard) << seat.member;
  sum.call.kind = CallKind::kReduceScatter;
  sum.call.to = whole + pieces.begin[seat_.shard];
  sum.call.pieces = &pieces;
  return sum;
}

Piece Stages::Unshard(StageId of) {
  Stage& stage = stages_[of.value];
  const int32_t rank = plan_.stage(of).rank.value;
  const int64_t offset = memory_.gathers[of.value][stage.unshards++];
  stage.gathered = gathered_[rank] == nullptr ? nullptr : gathered_[rank] + offset;
  const Replicas::Seat seat = seat_.replicas->OfShards(seat_.coordinate, of);
  const std::vector<Bucket>& buckets = stage.pieces.buckets();
  Piece piece;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const auto bucket = static_cast<int>(b);
    MemberCall& call = piece.calls.emplace_back(MemberCall{seat.group, seat.member, {}});
    call.call.kind = CallKind::kAllGather;
    call.call.from = buckets[b].narrow
                         ? stage.working + stage.pieces.OwnNarrowAt(bucket, seat_.shard)
                         : stage.params + stage.pieces.OwnAt(bucket, seat_.shard);
    call.call.to = stage.gathered + buckets[b].read_at;
    call.call.bytes = buckets[b].read.begin.back();
    call.call.pieces = &buckets[b].read;
    call.call.name = {PrintParameters, nullptr, NameOfBucket(of, b)};
  }
  return piece;
}

bool Stages::ReadsParameters(const Action& action) const {
  const StageProgram& program = programs_[action.stage.value];
  const Graph* const graphs[] = {&program.forward, &program.backward, &program.input_gradient,
                                 &program.weight_gradient};
  const std::vector<Port>& inputs = graphs[static_cast<int>(action.kind)]->inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Port& port) { return port.role == Role::kParam; });
}

// What is listed before an action on its rank is what it has.
absl::Status Stages::CheckGathered() const {
  for (int r = 0; r < plan_.ranks(); ++r) {
    std::vector<bool> there(stages_.size(), false);
    for (const Action& action : plan_.of(RankId(r))) {
      if (action.kind == ActionKind::kUnshard) there[action.stage.value] = true;
      if (action.kind == ActionKind::kReshard) there[action.stage.value] = false;
      if (!IsCompute(action.kind) || there[action.stage.value]) continue;
      if (!ReadsParameters(action)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", r, " would run ", PrintWithLine(plan_, action),
                       " without the parameters of "
                       "stage ",
                       action.stage.value, ", which 'sharding: parameters' shares out: no UNSHARD ",
                       "before it gathers them"));
    }
  }
  return absl::OkStatus();
}

void Stages::AddUp(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& copies = *static_cast<const Copies*>(self);
  float* const sum = copies.owner->grads(copies.stages[0]);
  const int64_t count = copies.owner->layout(copies.stages[0]).param_bytes / sizeof(float);
  for (size_t c = 1; c < copies.stages.size(); ++c) {
    copies.owner->kernels_->Add(sum, copies.owner->grads(copies.stages[c]), count, stream);
  }
}

void Stages::HandOut(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& copies = *static_cast<const Copies*>(self);
  const float* const sum = copies.owner->grads(copies.stages[0]);
  const int64_t bytes = copies.owner->layout(copies.stages[0]).param_bytes;
  for (size_t c = 1; c < copies.stages.size(); ++c) {
    copies.owner->kernels_->Copy(copies.owner->grads(copies.stages[c]), sum, bytes, stream);
  }
}

std::string Stages::PrintGradients(const void* /*self*/, int64_t bucket) {
  return absl::StrCat("the gradients of stage ", bucket & UINT32_MAX, ", bucket ", bucket >> 32);
}

std::string Stages::PrintParameters(const void* /*self*/, int64_t bucket) {
  return absl::StrCat("the parameters of stage ", bucket & UINT32_MAX, ", bucket ", bucket >> 32);
}

}  // namespace stringline
