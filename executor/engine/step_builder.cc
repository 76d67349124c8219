// A walk down every rank's list adds the commands of each group to the streams of its lanes; waits
// between lanes come from the plan's links.
#include "executor/engine/step_builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/check/rules.h"
#include "schedlang/plan/ready.h"

namespace stringline {
namespace {

std::vector<bool> LocalRanksOf(const Plan& plan, const InterpreterSettings& settings) {
  std::vector<bool> local(plan.ranks(), !settings.local.has_value());
  if (!settings.local.has_value()) return local;
  for (const RankId rank : *settings.local) local[rank.value] = true;
  return local;
}

bool Collects(const Plan& plan) {
  return std::any_of(plan.actions.begin(), plan.actions.end(),
                     [](const Action& action) { return IsCollective(action.kind); });
}
bool IsWired(const Plan& plan) {
  return Collects(plan) || HasCopies(plan) || !plan.rows.actions.empty();
}

}  // namespace

StepBuilder::StepBuilder(const Plan& lowered, StageWork* work, const MessageGroups& messages,
                         Recorder* recorder, const InterpreterSettings& settings,
                         StepCommands* commands)
    : plan_(lowered),
      work_(work),
      recorder_(recorder),
      commands_(commands),
      order_(settings.order),
      local_(LocalRanksOf(lowered, settings)),
      streams_(lowered, *work, local_, Collects(lowered), HasCopies(lowered), commands),
      own_(settings.links == nullptr && IsWired(lowered) ? WiringOf(lowered, settings.layout)
                                                         : Wiring()),
      wiring_(settings.links != nullptr && IsWired(lowered) ? *settings.links : own_),
      values_(lowered, wiring_, commands),
      buckets_(lowered, wiring_, *work),
      computations_(lowered, work, recorder, streams_, &values_, &buckets_, commands),
      messages_(lowered, work, messages, recorder, settings, streams_, &values_, commands),
      issued_(lowered) {}

absl::Status StepBuilder::Build() {
  Diagnostics faults;
  FindListFault(plan_, &faults);
  if (!faults.empty()) return absl::FailedPreconditionError(faults.findings().front().text);
  SL_RETURN_IF_ERROR(CheckReadyOrder());
  for (int r = 0; r < plan_.ranks(); ++r) SL_RETURN_IF_ERROR(BuildRank(r));
  if (!issued_.Whole()) {
    return absl::FailedPreconditionError(
        "the step is not whole: at its end not every stage has the weight gradient of every "
        "microbatch and nothing else");
  }
  return absl::OkStatus();
}

absl::Status StepBuilder::CheckReadyOrder() const {
  if (plan_.window == 0) return absl::OkStatus();
  if (const auto fault = FindReadyFault(plan_)) return absl::FailedPreconditionError(fault->text);
  if (order_ == MessageOrder::kListedWork) {
    return absl::UnimplementedError(
        "the schedule has a window: in ready order a message waits for nothing listed before it, "
        "as 'strict' says");
  }
  if (streams_.cut) {
    return absl::UnimplementedError(
        "the schedule has a window, and ready order performs no stages in parts, as those of "
        "experts are");
  }
  return absl::OkStatus();
}

// The compute stream goes on behind all computations of the step.
void StepBuilder::EndReady(int rank) {
  for (const int32_t stream : streams_.ready) {
    if (stream < 0 || commands_->streams()[stream].rank.value != rank) continue;
    commands_->Wait(streams_.compute[rank],
                    commands_->RecordEnd(stream, plan_.first[static_cast<size_t>(rank) + 1] - 1));
  }
}

absl::Status StepBuilder::BuildRank(int rank) {
  const bool ready = plan_.window > 0 && local_[rank] && !plan_.of(RankId(rank)).empty();
  if (ready) commands_->Turn(streams_.compute[rank], TurnOp::kBegin, plan_.first[rank]);
  for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1];) {
    const auto group = GroupAt(plan_.actions, i);
    const auto end = i + static_cast<uint32_t>(group.size());
    SL_RETURN_IF_ERROR(NeedsAreThere(rank, group));
    if (local_[rank]) SL_RETURN_IF_ERROR(AddGroup(rank, i, end));
    for (; i < end; ++i) issued_.Perform(plan_.actions[i]);
  }
  if (ready) EndReady(rank);
  return absl::OkStatus();
}

absl::Status StepBuilder::NeedsAreThere(int rank, absl::Span<const Action> group) const {
  for (size_t part = 0; part < group.size(); ++part) {
    const Values missing = issued_.Missing(group, part);
    if (missing == 0) continue;
    const Action& action = group[part];
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " would run ", PrintWithLine(plan_, action), " without the ",
                     Describe(plan_, action.stage, action.microbatch, missing)));
  }
  return absl::OkStatus();
}

absl::Status StepBuilder::AddGroup(int rank, uint32_t begin, uint32_t end) {
  const ActionKind kind = plan_.actions[begin].kind;
  if (IsMessage(kind)) return messages_.Add(rank, begin, end);
  if (IsOwn(kind)) return AddOwn(rank, begin);
  if (kind == ActionKind::kUpdate) return AddUpdate(rank, begin);
  if (plan_.window > 0) {
    computations_.AddReady(rank, begin);
    return absl::OkStatus();
  }
  if (IsCompute(kind)) {
    computations_.Add(rank, begin, end);
    return absl::OkStatus();
  }
  if (IsCopy(kind)) return AddCopy(rank, begin);
  for (uint32_t i = begin; i < end; ++i) SL_RETURN_IF_ERROR(AddCollective(rank, i));
  return absl::OkStatus();
}

absl::Status StepBuilder::CannotPerform(int rank, const Action& action,
                                        const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrCat("rank ", rank, " cannot perform ", PrintWithLine(plan_, action),
                                   ": ", status.message()));
}

absl::Status StepBuilder::AddCopy(int rank, uint32_t i) {
  const Action& action = plan_.actions[i];
  const absl::StatusOr<Work> work = work_->Copy(action);
  if (!work.ok()) return CannotPerform(rank, action, work.status());
  const bool out = CopiesOut(action.kind);
  const int32_t stream = (out ? streams_.offload : streams_.fetch)[rank];
  values_.WaitForCopies(stream, i);
  commands_->Mark(stream, {static_cast<int32_t>(i), {}});
  commands_->Launch(stream, *work, recorder_ == nullptr ? nullptr : recorder_->times(i));
  values_.Ends(i, commands_->RecordEnd(stream, i));
  return absl::OkStatus();
}

// A schedule's own action on its lane, behind what it needs from other lanes. A computation of all
// ranks meets on a stream of its own.
absl::Status StepBuilder::AddOwn(int rank, uint32_t i) {
  const Action& action = plan_.actions[i];
  const absl::StatusOr<Piece> piece = work_->Own(plan_.rows.of(action.kind), action);
  if (!piece.ok()) return CannotPerform(rank, action, piece.status());
  const bool computes = IsCompute(action.kind);
  const int32_t stream = computes                    ? streams_.compute[rank]
                         : IsOwnNetwork(action.kind) ? streams_.own[rank]
                         : CopiesOut(action.kind)    ? streams_.offload[rank]
                                                     : streams_.fetch[rank];
  values_.WaitForCopies(stream, i);
  values_.WaitForOwn(stream, i);
  if (IsOwnNetwork(action.kind) && order_ == MessageOrder::kListedWork) {
    messages_.WaitForListedWork(rank, i, stream);
  }
  commands_->Mark(stream, {static_cast<int32_t>(i), {}});
  CommandTimes* const times = recorder_ == nullptr ? nullptr : recorder_->times(i);
  if (computes && !piece->calls.empty()) {
    const int32_t meets = streams_.own_meetings[rank];
    commands_->Wait(meets, commands_->RecordEnd(stream, i));
    computations_.AddPiece(meets, i, *piece, times);
    commands_->Wait(stream, commands_->RecordEnd(meets, i));
  } else {
    computations_.AddPiece(stream, i, *piece, times);
  }
  values_.Ends(i, commands_->RecordEnd(stream, i));
  return absl::OkStatus();
}

// Behind the sum of its gradients, if the plan has one. Its calls go among the rank's collectives,
// whose order is that of their other members.
absl::Status StepBuilder::AddUpdate(int rank, uint32_t i) {
  const Action& action = plan_.actions[i];
  const absl::StatusOr<Piece> piece = work_->Update(action);
  if (!piece.ok()) return CannotPerform(rank, action, piece.status());
  const int32_t stream = streams_.compute[rank];
  values_.WaitForCopies(stream, i);
  values_.WaitForParameters(stream, i);
  commands_->Mark(stream, {static_cast<int32_t>(i), {}});
  computations_.AddPiece(stream, i, {piece->work, {}, {}},
                         recorder_ == nullptr ? nullptr : recorder_->times(i));
  if (!piece->calls.empty()) {
    const int32_t calls = streams_.collectives[rank];
    commands_->Wait(calls, commands_->RecordEnd(stream, i));
    for (const MemberCall& call : piece->calls) commands_->Call(calls, call, i, nullptr);
    commands_->Wait(stream, commands_->RecordEnd(calls, i));
  }
  values_.Ends(i, commands_->RecordEnd(stream, i));
  return absl::OkStatus();
}

// After the computation listed before it, or each bucket after the piece of the computation that
// gives it; the collectives of a rank follow each other.
absl::Status StepBuilder::AddCollective(int rank, uint32_t i) {
  const Action& action = plan_.actions[i];
  const uint32_t inside = buckets_.inside(i);
  absl::StatusOr<std::vector<Piece>> pieces =
      work_->Collective(action, inside == kNoAction ? nullptr : &plan_.actions[inside]);
  if (!pieces.ok()) return CannotPerform(rank, action, pieces.status());
  // Dropping parameters waits for no other rank: it runs on the compute stream, in its place.
  const bool drops = action.kind == ActionKind::kReshard;
  const int32_t stream = drops ? streams_.compute[rank] : streams_.collectives[rank];
  const uint32_t after = wiring_.wires[i].after;
  const bool gives =
      inside != kNoAction && action.kind == ActionKind::kReduceGrad && !buckets_.events(i).empty();
  if (after != kNoAction && !gives) values_.WaitForEnd(stream, after);
  commands_->Mark(stream, {static_cast<int32_t>(i), {}});
  if (inside == kNoAction) {
    computations_.AddPiece(stream, i, pieces->front(),
                           recorder_ == nullptr ? nullptr : recorder_->times(i));
  } else {
    AddBuckets(stream, i, *pieces);
  }
  values_.Ends(i, commands_->RecordEnd(stream, i));
  return absl::OkStatus();
}

void StepBuilder::AddBuckets(int32_t stream, uint32_t i, absl::Span<const Piece> pieces) {
  std::vector<StepBuckets::BucketEvent>& events = buckets_.events(i);
  const bool gives = plan_.actions[i].kind == ActionKind::kReduceGrad;
  SL_CHECK(!gives || events.size() <= pieces.size()) << events.size() << " " << pieces.size();
  events.resize(pieces.size());
  // Buckets to which the computation adds nothing are there before its first event.
  StepBuckets::BucketEvent first;
  for (const StepBuckets::BucketEvent& of : events) {
    if (of.event >= 0 && (first.event < 0 || of.event < first.event)) first = of;
  }
  for (StepBuckets::BucketEvent& of : events) {
    if (gives && of.event < 0) of = first;
  }
  for (size_t k = 0; k < pieces.size(); ++k) {
    if (gives && events[k].event >= 0) commands_->Wait(stream, events[k].event);
    CommandTimes* const times =
        recorder_ == nullptr ? nullptr : recorder_->AddPiece(i, gives ? events[k].times : nullptr);
    computations_.AddPiece(stream, i, pieces[k], times);
    if (!gives) events[k] = {commands_->RecordEnd(stream, i), times};
  }
}

}  // namespace stringline
