// REDUCE_GRAD: a rank adds up what its own copies of a stage have, then all ranks that
// hold one add up theirs, then every copy gets the sum.
#include "absl/strings/str_cat.h"
#include "executor/programs/stages.h"

namespace stringline {

absl::StatusOr<Piece> Stages::Collective(const Action& action) {
  if (action.kind != ActionKind::kReduceGrad) {
    return absl::UnimplementedError(
        "every rank keeps the parameters of its stages whole; the plan without UNSHARD and RESHARD "
        "can be run");
  }
  Piece piece;
  std::vector<StageId> copies = seat_.replicas->OnItsRank(action.stage);
  const StageId first = copies[0];
  came_to_sum_.resize(stages_.size());
  if (++came_to_sum_[first.value] < static_cast<int>(copies.size())) return piece;
  const Stage& stage = stages_[first.value];
  const auto add_call = [&](const Replicas::Seat& seat, int64_t begin, int64_t end) {
    if (seat.group == nullptr || begin == end) return;
    MemberCall& call = piece.calls.emplace_back(MemberCall{seat.group, seat.member, {}});
    call.call.kind = CallKind::kAllReduce;
    call.call.from = call.call.to = stage.grads + begin;
    call.call.bytes = end - begin;
    call.call.name = {PrintGradients, nullptr, seat_.replicas->PartOf(first)};
  };
  add_call(seat_.replicas->OfDense(seat_.coordinate, first), 0, stage.layout.dense_bytes);
  add_call(seat_.replicas->OfExperts(seat_.coordinate, first), stage.layout.dense_bytes,
           stage.layout.param_bytes);
  if (copies.size() > 1) {
    copies_.push_back({this, std::move(copies)});
    piece.work = {AddUp, &copies_.back(), 0};
    piece.after = {HandOut, &copies_.back(), 0};
  }
  return piece;
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

std::string Stages::PrintGradients(const void* /*self*/, int64_t stage) {
  return absl::StrCat("the gradients of stage ", stage);
}

}  // namespace stringline
