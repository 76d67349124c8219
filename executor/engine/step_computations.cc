#include "executor/engine/step_computations.h"

#include <algorithm>

#include "absl/types/span.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

// The outputs of a group leave when the whole group has ended, so that their consumer may rely on
// all of it, as the memory plan does. The last part of every action is on the compute lane.
void StepComputations::Add(int rank, uint32_t begin, uint32_t end) {
  const int32_t stream = streams_.compute[rank];
  const bool meets =
      buckets_->gather_of(begin) != kNoAction || buckets_->reduce_of(begin) != kNoAction;
  const bool in_pieces = meets && work_->layers(Of(begin).stage) == 0;
  for (uint32_t i = begin; i < end; ++i) {
    values_->WaitForNeeds(stream, i);
    values_->WaitForCopies(stream, i);
    values_->WaitForOwn(stream, i);
    if (buckets_->gather_of(i) == kNoAction) values_->WaitForParameters(stream, i);
  }
  for (uint32_t i = begin; i < end; ++i) commands_->Copy(stream, work_->CopiesBefore(Of(i)));
  if (in_pieces) {
    AddPieces(stream, begin);
  } else {
    AddParts(rank, begin, end);
  }
  bool awaited = false;
  for (uint32_t i = begin; i < end; ++i) {
    commands_->Copy(stream, work_->CopiesAfter(Of(i)));
    values_->Gives(i);
    awaited = awaited || values_->IsAwaited(Of(i));
  }
  if (!awaited) return;
  const int32_t ended = commands_->RecordEnd(stream, end - 1);
  for (uint32_t i = begin; i < end; ++i) values_->Ends(i, ended);
}

void StepComputations::AddReady(int rank, uint32_t i) {
  const Action& action = Of(i);
  const int32_t stream = streams_.Of(plan_, action);
  commands_->Turn(stream, TurnOp::kTake, i);
  commands_->Copy(stream, work_->CopiesBefore(action));
  AddLanes(stream, streams_.network[rank], OrderOf({&action, 1}), i);
  commands_->Copy(stream, work_->CopiesAfter(action));
  values_->Gives(i);
  values_->Ends(i, commands_->RecordEnd(stream, i));
  commands_->Turn(stream, TurnOp::kEnd, i);
}

void StepComputations::AddParts(int rank, uint32_t begin, uint32_t end) {
  const auto group = absl::MakeConstSpan(plan_.actions).subspan(begin, end - begin);
  if (Overlaps(plan_, group)) {
    AddLanes(streams_.compute[rank], streams_.network[rank], OrderOf(group), begin);
    return;
  }
  for (uint32_t i = begin; i < end; ++i) {
    AddLanes(streams_.compute[rank], streams_.network[rank], OrderOf({&Of(i), 1}), i);
  }
}

// A piece waits for the buckets that it needs, and an event tells those that it gives.
void StepComputations::AddPieces(int32_t stream, uint32_t i) {
  const uint32_t gather = buckets_->gather_of(i), reduce = buckets_->reduce_of(i);
  commands_->Mark(stream, {static_cast<int32_t>(i), {}});
  for (const BucketPiece& piece :
       work_->ComputeByBucket(Of(i), gather != kNoAction, reduce != kNoAction)) {
    const CommandTimes* awaited = nullptr;
    for (const int bucket : piece.needs) {
      const StepBuckets::BucketEvent& needed = buckets_->events(gather)[bucket];
      commands_->Wait(stream, needed.event);
      awaited = needed.times;  // they end in their order
    }
    CommandTimes* const times = recorder_ == nullptr ? nullptr : recorder_->AddPiece(i, awaited);
    commands_->Launch(stream, piece.work, times);
    if (!piece.gives.empty()) Give(stream, i, piece.gives, times);
  }
}

const GroupOrder& StepComputations::OrderOf(absl::Span<const Action> group) {
  std::vector<GroupMember> members;
  for (const Action& action : group) {
    // An R is one part, the post of an F.
    const bool remakes = action.kind == ActionKind::kRecompute;
    members.push_back({remakes ? ActionKind::kForward : action.kind,
                       remakes ? 0 : work_->layers(action.stage), action.stage});
  }
  const auto [order, is_new] = orders_.try_emplace(members);
  if (is_new) order->second = OrderGroup(members, FindOverlap(plan_, group), plan_.chunks);
  return order->second;
}

// Both lanes, by turns as far as each can go: a wait is enqueued after the step it waits for.
void StepComputations::AddLanes(int32_t compute, int32_t network, const GroupOrder& order,
                                uint32_t begin) {
  const std::vector<LaneStep>* const lanes[] = {&order.compute, &order.network};
  const int32_t streams[] = {compute, network};
  for (int lane = 0; lane < 2; ++lane) {
    awaited_[lane].assign(lanes[lane]->size(), -1);
    done_[lane] = 0;
  }
  for (int lane = 0; lane < 2; ++lane) {
    for (const LaneStep& step : *lanes[lane]) {
      if (step.after >= 0) awaited_[1 - lane][step.after] = 0;
    }
  }
  while (done_[0] < lanes[0]->size() || done_[1] < lanes[1]->size()) {
    const size_t before = done_[0] + done_[1];
    for (int lane = 0; lane < 2; ++lane) {
      for (size_t& next = done_[lane]; next < lanes[lane]->size(); ++next) {
        const LaneStep& step = (*lanes[lane])[next];
        if (step.after >= static_cast<int32_t>(done_[1 - lane])) break;
        const uint32_t action = begin + step.of;
        if (step.after >= 0) commands_->Wait(streams[lane], awaited_[1 - lane][step.after]);
        const LayerPart part = {step.part, step.layer, step.chunk};
        AddPart(streams[lane], action, part);
        if (awaited_[lane][next] < 0) continue;
        awaited_[lane][next] = commands_->NewEvent({static_cast<int32_t>(action), part, true});
        commands_->Record(streams[lane], awaited_[lane][next]);
      }
    }
    SL_CHECK(done_[0] + done_[1] > before) << "the lanes wait for each other";
  }
}

void StepComputations::AddPart(int32_t stream, uint32_t i, LayerPart part) {
  const Piece piece = work_->Compute(Of(i), part);
  if (piece.work.run == nullptr && piece.calls.empty()) return;
  commands_->Mark(stream, {static_cast<int32_t>(i), part, streams_.cut});
  const CommandTimes* const awaited = WaitForBuckets(stream, i, part);
  CommandTimes* times = nullptr;
  if (recorder_ != nullptr) {
    times = streams_.cut ? recorder_->AddPart(i, part, awaited) : recorder_->times(i);
  }
  AddPiece(stream, i, piece, times);
  const uint32_t reduce = buckets_->reduce_of(i);
  if (reduce == kNoAction || LaneOf(part.part) == Lane::kNetwork) return;
  if (const std::vector<int> given = work_->BucketsGiven(Of(i), part); !given.empty()) {
    Give(stream, i, given, times);
  }
}

// Every computation waits for the first bucket, and a W, whose list says that it has its
// parameters, for all. The times of the last bucket awaited, or null.
const CommandTimes* StepComputations::WaitForBuckets(int32_t stream, uint32_t i, LayerPart part) {
  const uint32_t gather = buckets_->gather_of(i);
  if (gather == kNoAction || LaneOf(part.part) == Lane::kNetwork) return nullptr;
  size_t buckets = buckets_->events(gather).size();
  if (Of(i).kind != ActionKind::kWeightGradient) {
    buckets = static_cast<size_t>(std::max(work_->BucketsRead(Of(i), part), 1));
  }
  const StepBuckets::BucketEvent* const last = buckets_->Meet(gather, buckets);
  if (last == nullptr) return nullptr;
  commands_->Wait(stream, last->event);
  return last->times;
}

// A later part may give the same buckets: then its event is the one awaited.
void StepComputations::Give(int32_t stream, uint32_t i, absl::Span<const int> given,
                            const CommandTimes* times) {
  const int32_t event = commands_->RecordEnd(stream, i);
  std::vector<StepBuckets::BucketEvent>& events = buckets_->events(buckets_->reduce_of(i));
  for (const int bucket : given) {
    events.resize(std::max(events.size(), static_cast<size_t>(bucket) + 1));
    events[bucket] = {event, times};
  }
}

void StepComputations::AddPiece(int32_t stream, uint32_t i, const Piece& piece,
                                CommandTimes* times) {
  if (piece.work.run != nullptr) commands_->Launch(stream, piece.work, times);
  for (const MemberCall& call : piece.calls) commands_->Call(stream, call, i, times);
  if (piece.after.run != nullptr) commands_->Launch(stream, piece.after, nullptr);
}

}  // namespace stringline
