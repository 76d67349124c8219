// A step as flat lists: streams, events, and for each rank its commands in the order in which they
// are enqueued. Every command refers to a stream of its own rank, every wait to an event that some
// command of the step records. Names for reports on the waits of a step are printed from the lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/engine/device.h"
#include "executor/engine/group.h"
#include "executor/engine/recorder.h"
#include "executor/engine/stage_work.h"
#include "schedlang/plan/channels.h"
#include "schedlang/plan/parts.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class StepCommands {
 public:
  enum class CommandKind : uint8_t { kLaunch, kCopy, kRecord, kWait, kCall, kMark, kTurn };
  struct Command {
    CommandKind kind;
    int32_t stream;    // index into streams()
    int32_t argument;  // index into launches(), copies(), events(), calls() or the marks; or of the
                       // turns
  };
  // A stream of the plan: a lane, the collectives or the copies of `rank`, or its end of channel
  // `index`; or the flight of a message that has left its channel: plan.actions[index], the
  // receive.
  enum class StreamKind : uint8_t {
    kCompute,
    kNetwork,
    kCollectives,
    kOffload,
    kFetch,
    kOwn,  // index 0: the own actions on the network; 1: the meetings of own computations
    kSend,
    kRecv,
    kFlight,
    kReady  // index kReadySorts * stage + ReadySortOf: the F of a stage, its B or I, and its W
  };
  struct StreamRow {
    StreamKind kind;
    RankId rank;
    int32_t index = 0;
    int32_t capacity = 0;  // operations that a step enqueues
  };
  // plan.actions[action], or only a part of it: for an event at its end, or for a mark at its
  // beginning.
  struct ActionRow {
    int32_t action;
    LayerPart part;
    bool partly = false;
  };
  // Work, and the destination of its times; null: not recorded.
  struct TimedLaunch {
    Work work;
    WorkTimes* times = nullptr;
  };

  struct TurnRow {
    TurnOp op;
    uint32_t action;
  };

  // `marks`: the device shows marks (Device::ShowsMarks).
  StepCommands(const Plan& lowered, bool marks);
  StepCommands(const StepCommands&) = delete;  // names refer to the object

  int32_t AddStream(StreamKind kind, RankId rank, int index);
  // An event at the end of an action, or of a part.
  int32_t NewEvent(uint32_t action) { return NewEvent({static_cast<int32_t>(action), {}, false}); }
  int32_t NewEvent(const ActionRow& row);

  void Launch(int32_t stream, const Work& work, WorkTimes* times);
  void Copy(int32_t stream, const std::vector<HostCopy>& copies);
  void Record(int32_t stream, int32_t event) { Add(CommandKind::kRecord, stream, event); }
  void Wait(int32_t stream, int32_t event) { Add(CommandKind::kWait, stream, event); }
  // A call that serves the action; `times` may be null.
  void Call(int32_t stream, MemberCall call, uint32_t action, CommandTimes* times);
  // For the turns of the stream's rank, in a plan with a window; of the action.
  void Turn(int32_t stream, TurnOp op, uint32_t action) {
    Add(CommandKind::kTurn, stream, static_cast<int32_t>(turns_.size()));
    turns_.push_back({op, action});
  }
  // The beginning of an action, or of a part, on a stream.
  void Mark(int32_t stream, const ActionRow& row);
  // A new event at the end of the action, recorded on the stream.
  int32_t RecordEnd(int32_t stream, uint32_t action);

  // The name of a message's call (message_name.h).
  LazyName MessageName(int64_t number) const { return {PrintMessage, this, number}; }
  LazyName StreamName(size_t stream) const;
  LazyName EventName(size_t event) const;
  LazyName MarkName(int32_t mark) const { return {PrintMark, this, mark}; }

  const Channels& channels() const { return channels_; }
  const std::vector<StreamRow>& streams() const { return streams_; }
  const std::vector<ActionRow>& events() const { return events_; }
  const TimedLaunch& launch(int32_t index) const { return launches_[index]; }
  const HostCopy& copy(int32_t index) const { return copies_[index]; }
  const MemberCall& call(int32_t index) const { return calls_[index]; }
  const TurnRow& turn(int32_t index) const { return turns_[index]; }
  const std::vector<Command>& of(RankId rank) const { return commands_[rank.value]; }

 private:
  void Add(CommandKind kind, int32_t stream, int32_t argument);
  std::string PrintAction(const ActionRow& row) const;
  static std::string PrintStream(const void* self, int64_t index);
  static std::string PrintEvent(const void* self, int64_t index);
  static std::string PrintMark(const void* self, int64_t index);
  static std::string PrintPlanned(const void* self, int64_t index);
  static std::string PrintMessage(const void* self, int64_t number);

  const Plan& plan_;
  const Channels channels_;
  const bool marks_shown_;
  std::vector<StreamRow> streams_;
  std::vector<ActionRow> events_;
  std::vector<ActionRow> marks_;
  std::vector<TimedLaunch> launches_;
  std::vector<HostCopy> copies_;
  std::vector<MemberCall> calls_;
  std::vector<TurnRow> turns_;
  std::vector<std::vector<Command>> commands_;  // by rank
};

}  // namespace stringline
