#include "executor/engine/step_messages.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/engine/message_name.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

StepMessages::StepMessages(const Plan& plan, StageWork* work, const MessageGroups& messages,
                           Recorder* recorder, const InterpreterSettings& settings,
                           const StepStreams& streams, StepValues* values, StepCommands* commands)
    : plan_(plan),
      work_(work),
      messages_(messages),
      recorder_(recorder),
      settings_(settings),
      streams_(streams),
      values_(values),
      commands_(commands),
      queues_(QueuesOf(commands->channels(), settings.layout)),
      last_call_(queues_.all.size()) {}

absl::Status StepMessages::Add(int rank, uint32_t begin, uint32_t end) {
  parts_.clear();
  for (uint32_t i = begin; i < end; ++i) {
    const Action& action = plan_.actions[i];
    const int channel = commands_->channels().Of(plan_, action);
    if (channel < 0) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", rank, ": the message of ",
                                                        PrintWithLine(plan_, action),
                                                        " goes to no other rank"));
    }
    const bool send = IsSend(action.kind);
    parts_.push_back({send ? queues_.of_send[channel] : queues_.of_recv[channel],
                      send ? streams_.send[channel] : streams_.recv[channel], i, channel});
  }
  if (parts_.size() > 1) {
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
      return std::tie(a.queue, a.stream, a.action) < std::tie(b.queue, b.stream, b.action);
    });
  }
  for (size_t first = 0; first < parts_.size();) {
    size_t last = first;
    while (last < parts_.size() && parts_[last].queue == parts_[first].queue) ++last;
    SL_RETURN_IF_ERROR(AddCall(rank, absl::MakeConstSpan(parts_).subspan(first, last - first)));
    first = last;
  }
  return absl::OkStatus();
}

// The parts of a call begin together, when all can, and then go on by themselves.
absl::Status StepMessages::AddCall(int rank, absl::Span<const Part> call) {
  std::vector<CallEnd>& before = last_call_[call[0].queue];
  call_.clear();
  for (const Part& part : call) {
    if (call_.empty() || call_.back().stream != part.stream) call_.push_back({part.stream, 0});
    call_.back().action = part.action;
  }
  if (call_.size() > 1) SL_RETURN_IF_ERROR(CheckBeginsTogether(rank, call));
  for (const CallEnd& own : call_) {
    for (CallEnd& other : before) {
      if (other.stream != own.stream) commands_->Wait(own.stream, EndOf(&other));
    }
    for (const Part& part : call) {
      const Action& action = plan_.actions[part.action];
      if (IsSend(action.kind)) values_->WaitForMaker(own.stream, action);
    }
    if (settings_.order == MessageOrder::kListedWork) {
      WaitForListedWork(rank, own.action, own.stream);
    }
  }
  for (const Part& part : call) AddMessage(rank, part);
  std::swap(before, call_);
  return absl::OkStatus();
}

absl::Status StepMessages::CheckBeginsTogether(int rank, absl::Span<const Part> call) const {
  if (messages_.begins_together()) return absl::OkStatus();
  const std::string& name = queues_.all[call[0].queue].communicator;
  return absl::UnimplementedError(absl::StrCat(
      "rank ", rank, ": ", PrintWithLine(plan_, plan_.actions[call[0].action]), " and ",
      Print(plan_, plan_.actions[call[1].action]), " are one call on communicator ", name,
      " of layout ", NameOf(settings_.layout),
      ", which ranks in several processes cannot do; layout edge has communicators for both"));
}

int32_t StepMessages::EndOf(CallEnd* end) {
  if (end->event < 0) end->event = commands_->RecordEnd(end->stream, end->action);
  return end->event;
}

void StepMessages::AddMessage(int rank, const Part& part) {
  const uint32_t i = part.action;
  const Action& action = plan_.actions[i];
  const bool send = IsSend(action.kind);
  const bool gradient = !CarriesActivation(action.kind);
  const Bytes payload = work_->Payload(action);
  const MessageGroups::Ends& ends = messages_.of(part.channel);
  MemberCall call{ends.group, send ? ends.from : ends.to, {}};
  call.call.kind = send ? CallKind::kSend : CallKind::kRecv;
  call.call.peer = send ? ends.to : ends.from;
  call.call.from = call.call.to = payload.data;
  call.call.bytes = payload.bytes;
  call.call.name = commands_->MessageName(
      NumberOfMessage(plan_, {gradient, EdgeOf(plan_, action)->id, action.microbatch}));
  commands_->Mark(part.stream, {static_cast<int32_t>(i), {}});
  commands_->Call(part.stream, call, i, recorder_ == nullptr ? nullptr : recorder_->times(i));
  if (send) return;
  const int32_t arrived = commands_->NewEvent(i);
  const int32_t flight = AddFlight(rank, part.stream, i);
  commands_->Record(flight, arrived);
  if (plan_.window > 0) commands_->Turn(flight, TurnOp::kCome, TakerOf(rank, i));
  values_->Ends(i, arrived);
  values_->Brings(i, gradient);
}

// The computation that takes the received message: its receive is listed before.
uint32_t StepMessages::TakerOf(int rank, uint32_t recv) const {
  const Action& message = plan_.actions[recv];
  const bool forward = CarriesActivation(message.kind);
  uint32_t i = recv;
  const auto takes = [&](const Action& action) {
    return action.stage == message.stage && action.microbatch == message.microbatch &&
           IsCompute(action.kind) && (action.kind == ActionKind::kForward) == forward;
  };
  while (i < plan_.first[rank + 1] && !takes(plan_.actions[i])) ++i;
  SL_CHECK(i < plan_.first[rank + 1]) << "nobody takes a message of a checked plan";
  return i;
}

// The stream on which the received message is in flight.
int32_t StepMessages::AddFlight(int rank, int32_t channel, uint32_t i) {
  const Work flight = work_->InFlight(plan_.actions[i]);
  if (flight.run == nullptr) return channel;
  const int32_t left = commands_->RecordEnd(channel, i);
  const int32_t stream =
      commands_->AddStream(StepCommands::StreamKind::kFlight, RankId(rank), static_cast<int>(i));
  commands_->Wait(stream, left);
  commands_->Launch(stream, flight, recorder_ == nullptr ? nullptr : recorder_->times(i));
  return stream;
}

// The stream goes on when the rank's computations listed before actions[i] have ended.
void StepMessages::WaitForListedWork(int rank, uint32_t i, int32_t stream) {
  uint32_t last = i;
  while (last > plan_.first[rank] && !IsCompute(plan_.actions[last].kind)) --last;
  if (!IsCompute(plan_.actions[last].kind)) return;
  commands_->Wait(stream, commands_->RecordEnd(streams_.compute[rank], last));
}

}  // namespace stringline
