#include "executor/training/state_collectives.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

Replicas::Seat StateCollectives::SeatOf(StageId stage, const Bucket& bucket) const {
  return bucket.experts ? seat_.replicas->OfExperts(seat_.coordinate, stage)
                        : seat_.replicas->OfDense(seat_.coordinate, stage);
}

std::vector<int> StateCollectives::Summed(StageId stage) const {
  const std::vector<Bucket>& buckets = params_->pieces(stage).buckets();
  std::vector<int> summed;
  for (size_t b = 0; b < buckets.size(); ++b) {
    if (SeatOf(stage, buckets[b]).group != nullptr) summed.push_back(static_cast<int>(b));
  }
  return summed;
}

Piece StateCollectives::ReduceGrads(StageId of, absl::Span<const int> order) {
  Piece piece;
  std::vector<StageId> copies = seat_.replicas->OnItsRank(of);
  const StageId first = copies[0];
  came_to_sum_.resize(std::max<size_t>(came_to_sum_.size(), first.value + 1));
  if (++came_to_sum_[first.value] < static_cast<int>(copies.size())) return piece;
  came_to_sum_[first.value] = 0;
  const std::vector<Bucket>& buckets = params_->pieces(first).buckets();
  for (const int b : order) {
    piece.calls.push_back(SumOf(first, buckets[b], SeatOf(first, buckets[b])));
    piece.calls.back().call.name = {PrintGradients, nullptr, NameOfBucket(first, b)};
  }
  if (copies.size() > 1) {
    copies_.push_back({this, std::move(copies)});
    piece.work = {AddUp, &copies_.back(), 0};
    piece.after = {HandOut, &copies_.back(), 0};
  }
  return piece;
}

absl::Status StateCollectives::CheckSummed(StageId stage) const {
  const auto first = static_cast<size_t>(seat_.replicas->OnItsRank(stage)[0].value);
  if (first >= came_to_sum_.size() || came_to_sum_[first] == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a replica of its stage on this rank has its REDUCE_GRAD behind it, and only then the rank "
      "sums their gradients; the UPDATE behind all of them would help");
}

// In place; for sharded gradients only the own piece is summed.
MemberCall StateCollectives::SumOf(StageId stage, const Bucket& bucket,
                                   const Replicas::Seat& seat) {
  MemberCall sum{seat.group, seat.member, {}};
  char* const whole = params_->grads(stage) + bucket.at;
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

Piece StateCollectives::Unshard(StageId of, char* to, absl::Span<const int> order) const {
  const Replicas::Seat seat = seat_.replicas->OfShards(seat_.coordinate, of);
  const StatePieces& pieces = params_->pieces(of);
  const std::vector<Bucket>& buckets = pieces.buckets();
  Piece piece;
  for (const int b : order) {
    MemberCall& call = piece.calls.emplace_back(MemberCall{seat.group, seat.member, {}});
    call.call.kind = CallKind::kAllGather;
    call.call.from = buckets[b].narrow ? params_->working(of) + pieces.OwnNarrowAt(b, seat_.shard)
                                       : params_->params(of) + pieces.OwnAt(b, seat_.shard);
    call.call.to = to + buckets[b].read_at;
    call.call.bytes = buckets[b].read.begin.back();
    call.call.pieces = &buckets[b].read;
    call.call.name = {PrintParameters, nullptr, NameOfBucket(of, b)};
  }
  return piece;
}

std::vector<MemberCall> StateCollectives::GatherUpdated(StageId stage) const {
  std::vector<MemberCall> calls;
  if (sharing_.sharding == Sharding::kNone || params_->gathers()) return calls;
  const Replicas::Seat seat = seat_.replicas->OfShards(seat_.coordinate, stage);
  const std::vector<Bucket>& buckets = params_->pieces(stage).buckets();
  for (size_t b = 0; b < buckets.size(); ++b) {
    const auto gather = [&](char* whole, const Pieces& pieces) {
      MemberCall& call = calls.emplace_back(MemberCall{seat.group, seat.member, {}});
      call.call.kind = CallKind::kAllGather;
      call.call.from = whole + pieces.begin[seat_.shard];
      call.call.to = whole;
      call.call.bytes = pieces.begin.back();
      call.call.pieces = &pieces;
      call.call.name = {PrintParameters, nullptr, NameOfBucket(stage, static_cast<int64_t>(b))};
    };
    gather(params_->params(stage) + buckets[b].at, buckets[b].pieces);
    if (buckets[b].narrow) gather(params_->working(stage) + buckets[b].read_at, buckets[b].read);
  }
  return calls;
}

void StateCollectives::AddUp(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& copies = *static_cast<const Copies*>(self);
  const StageParams& params = *copies.owner->params_;
  auto* const sum = reinterpret_cast<float*>(params.grads(copies.stages[0]));
  const int64_t count = params.layout(copies.stages[0]).param_bytes / sizeof(float);
  for (size_t c = 1; c < copies.stages.size(); ++c) {
    const auto* const added = reinterpret_cast<const float*>(params.grads(copies.stages[c]));
    copies.owner->kernels_->Add(sum, added, count, stream);
  }
}

void StateCollectives::HandOut(const void* self, int64_t /*argument*/, NativeStream stream) {
  const auto& copies = *static_cast<const Copies*>(self);
  const StageParams& params = *copies.owner->params_;
  const char* const sum = params.grads(copies.stages[0]);
  const int64_t bytes = params.layout(copies.stages[0]).param_bytes;
  for (size_t c = 1; c < copies.stages.size(); ++c) {
    copies.owner->kernels_->Copy(params.grads(copies.stages[c]), sum, bytes, stream);
  }
}

std::string StateCollectives::PrintGradients(const void* /*self*/, int64_t bucket) {
  return absl::StrCat("the gradients of stage ", bucket & UINT32_MAX, ", bucket ", bucket >> 32);
}

std::string StateCollectives::PrintParameters(const void* /*self*/, int64_t bucket) {
  return absl::StrCat("the parameters of stage ", bucket & UINT32_MAX, ", bucket ", bucket >> 32);
}

}  // namespace stringline
