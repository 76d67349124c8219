#include "executor/engine/interpreter.h"

#include <algorithm>

#include "executor/engine/step_builder.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

RankId RankOf(const Plan& plan, int32_t action) {
  const auto next =
      std::upper_bound(plan.first.begin(), plan.first.end(), static_cast<uint32_t>(action));
  return RankId(static_cast<int32_t>(next - plan.first.begin()) - 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Make(
    const Plan& lowered, StageWork* work, Device* device, Groups* groups, Recorder* recorder,
    const InterpreterSettings& settings) {
  const MessageGroups messages(lowered, settings.layout, settings.first_rank, groups);
  return Make(lowered, work, device, messages, recorder, settings);
}

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Make(
    const Plan& lowered, StageWork* work, Device* device, const MessageGroups& messages,
    Recorder* recorder, const InterpreterSettings& settings) {
  if (lowered.window > 0 && !device->HasTurns()) {
    return absl::UnimplementedError(
        "the schedule has a window, and ready order is performed on CPUs; leave 'window' out");
  }
  std::unique_ptr<Interpreter> step(new Interpreter(lowered, device));
  StepBuilder builder(lowered, work, messages, recorder, settings, &step->commands_);
  SL_RETURN_IF_ERROR(builder.Build());
  step->compute_streams_ = builder.compute_streams();
  step->MakeStreams(settings);
  if (lowered.window > 0) {
    const ValueTakers graph(lowered);
    const ReadyRoom room = RoomOf(lowered);
    for (int r = 0; r < lowered.ranks(); ++r) {
      step->turns_.push_back(std::make_unique<RankTurns>(lowered, RankId(r), graph, room));
    }
  }
  return step;
}

void Interpreter::MakeStreams(const InterpreterSettings& settings) {
  for (size_t i = 0; i < commands_.streams().size(); ++i) {
    const StepCommands::StreamRow& row = commands_.streams()[i];
    device_->MakeFor(settings.first_rank + row.rank.value);
    const LazyName name = commands_.StreamName(i);
    streams_.push_back(row.kind == StepCommands::StreamKind::kCompute
                           ? device_->NewStream(name, row.capacity + settings.between)
                           : device_->NewUrgentStream(name, row.capacity));
  }
  for (size_t i = 0; i < commands_.events().size(); ++i) {
    const RankId rank = RankOf(plan_, commands_.events()[i].action);
    device_->MakeFor(settings.first_rank + rank.value);
    events_.push_back(device_->NewEvent(commands_.EventName(i)));
  }
}

void Interpreter::EnqueueRank(RankId rank) {
  using Kind = StepCommands::CommandKind;
  for (const StepCommands::Command& command : commands_.of(rank)) {
    const StreamId stream = streams_[command.stream];
    switch (command.kind) {
      case Kind::kLaunch: {
        const StepCommands::TimedLaunch& launch = commands_.launch(command.argument);
        device_->Launch(stream, launch.work, launch.times);
        break;
      }
      case Kind::kCopy: {
        const HostCopy& copy = commands_.copy(command.argument);
        device_->Copy(stream, copy.to, copy.from, copy.bytes);
        break;
      }
      case Kind::kRecord:
        device_->Record(stream, events_[command.argument]);
        break;
      case Kind::kWait:
        device_->Wait(stream, events_[command.argument]);
        break;
      case Kind::kCall: {
        const MemberCall& call = commands_.call(command.argument);
        call.group->Enqueue(call.member, stream, &call.call);
        break;
      }
      case Kind::kTurn: {
        const StepCommands::TurnRow& turn = commands_.turn(command.argument);
        device_->Turn(stream, turns_[rank.value].get(), turn.op, turn.action);
        break;
      }
      case Kind::kMark:
        device_->Mark(stream, commands_.MarkName(command.argument));
        break;
    }
  }
}

void Interpreter::EnqueueStep() {
  for (int r = 0; r < plan_.ranks(); ++r) EnqueueRank(RankId(r));
}

}  // namespace stringline
