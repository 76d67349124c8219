#include "executor/engine/step_commands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/engine/message_name.h"
#include "schedlang/plan/ready.h"

namespace stringline {

StepCommands::StepCommands(const Plan& lowered, bool marks)
    : plan_(lowered),
      channels_(ChannelsOf(lowered)),
      marks_shown_(marks),
      commands_(lowered.ranks()) {
  launches_.reserve(lowered.actions.size());
  calls_.reserve(lowered.actions.size());
}

int32_t StepCommands::AddStream(StreamKind kind, RankId rank, int index) {
  streams_.push_back({kind, rank, index});
  return static_cast<int32_t>(streams_.size()) - 1;
}

int32_t StepCommands::NewEvent(const ActionRow& row) {
  events_.push_back(row);
  return static_cast<int32_t>(events_.size()) - 1;
}

void StepCommands::Add(CommandKind kind, int32_t stream, int32_t argument) {
  StreamRow& row = streams_[stream];
  commands_[row.rank.value].push_back({kind, stream, argument});
  ++row.capacity;
}

void StepCommands::Launch(int32_t stream, const Work& work, WorkTimes* times) {
  Add(CommandKind::kLaunch, stream, static_cast<int32_t>(launches_.size()));
  launches_.push_back({work, times});
}

void StepCommands::Copy(int32_t stream, const std::vector<HostCopy>& copies) {
  for (const HostCopy& copy : copies) {
    Add(CommandKind::kCopy, stream, static_cast<int32_t>(copies_.size()));
    copies_.push_back(copy);
  }
}

// The action is named if its source line is known.
void StepCommands::Call(int32_t stream, MemberCall call, uint32_t action, CommandTimes* times) {
  if (plan_.source != nullptr) call.call.action = {PrintPlanned, this, action};
  if (times != nullptr) {
    call.call.came_ns = &times->came_ns;
    call.call.ended_ns = &times->end_ns;
  }
  Add(CommandKind::kCall, stream, static_cast<int32_t>(calls_.size()));
  streams_[stream].capacity += Group::OpsOf(call.call.kind) - 1;
  calls_.push_back(call);
}

void StepCommands::Mark(int32_t stream, const ActionRow& row) {
  if (!marks_shown_) return;
  Add(CommandKind::kMark, stream, static_cast<int32_t>(marks_.size()));
  marks_.push_back(row);
}

int32_t StepCommands::RecordEnd(int32_t stream, uint32_t action) {
  const int32_t event = NewEvent(action);
  Record(stream, event);
  return event;
}

LazyName StepCommands::StreamName(size_t stream) const {
  return {PrintStream, this, static_cast<int64_t>(stream)};
}

LazyName StepCommands::EventName(size_t event) const {
  return {PrintEvent, this, static_cast<int64_t>(event)};
}

std::string StepCommands::PrintStream(const void* self, int64_t index) {
  const auto& step = *static_cast<const StepCommands*>(self);
  const StreamRow& row = step.streams_[index];
  const std::string rank = absl::StrCat("rank ", row.rank.value, "'s ");
  if (row.kind == StreamKind::kCompute) return rank + "computation";
  if (row.kind == StreamKind::kNetwork) return rank + "network";
  if (row.kind == StreamKind::kCollectives) return rank + "collectives";
  if (row.kind == StreamKind::kOffload) return rank + "copies to the host";
  if (row.kind == StreamKind::kFetch) return rank + "copies from the host";
  if (row.kind == StreamKind::kOwn) return rank + "own actions";
  if (row.kind == StreamKind::kReady) {
    const auto index = static_cast<size_t>(row.index);
    return absl::StrCat(rank, kReadySortNames[index % kReadySorts], " of stage ",
                        index / kReadySorts);
  }
  if (row.kind == StreamKind::kFlight) {
    return absl::StrCat(rank, "flight of ",
                        PrintWithLine(step.plan_, step.plan_.actions[row.index]));
  }
  const Channel& channel = step.channels_.all[row.index];
  return row.kind == StreamKind::kSend
             ? absl::StrCat(rank, "send stream to rank ", channel.to.value)
             : absl::StrCat(rank, "receive stream from rank ", channel.from.value);
}

std::string StepCommands::PrintAction(const ActionRow& row) const {
  const Action& action = plan_.actions[row.action];
  return absl::StrCat(Print(plan_, action), row.partly ? ":" : "",
                      row.partly ? Print(row.part) : "", PrintLine(plan_, action));
}

std::string StepCommands::PrintPlanned(const void* self, int64_t index) {
  const Plan& plan = static_cast<const StepCommands*>(self)->plan_;
  return PrintWithLine(plan, plan.actions[static_cast<size_t>(index)]);
}

std::string StepCommands::PrintEvent(const void* self, int64_t index) {
  const auto& step = *static_cast<const StepCommands*>(self);
  return step.PrintAction(step.events_[index]);
}

std::string StepCommands::PrintMark(const void* self, int64_t index) {
  const auto& step = *static_cast<const StepCommands*>(self);
  return step.PrintAction(step.marks_[index]);
}

std::string StepCommands::PrintMessage(const void* self, int64_t number) {
  const Plan& plan = static_cast<const StepCommands*>(self)->plan_;
  const auto name = NameOfMessage(plan, number);
  const Edge& edge = plan.graph.edges()[static_cast<size_t>(name.edge)];
  const std::string taker =
      plan.graph.is_chain()
          ? ""
          : absl::StrCat(" for stage ", (name.gradient ? edge.from : edge.to).value);
  return absl::StrCat("the ", name.gradient ? "gradient" : "activation", " of stage ",
                      (name.gradient ? edge.to : edge.from).value, taker, ", microbatch ",
                      name.microbatch.value);
}

}  // namespace stringline
