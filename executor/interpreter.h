// Performs a lowered plan on a device: for each action of each rank, in the plan's order, wait for
// the events of what it needs, launch its work, record an event, hand on what it gives. It knows no
// schedule by name and never looks at the clock.
//
// Streams: every rank has a compute stream per lane (lanes.h), and one stream per channel it sends
// on or receives on. Channels of one communicator share a queue (communicators.h): a call starts
// when the one before it has ended, on whatever streams their parts run. A group starts on lane 0
// when the needs of all its parts are there, the other lanes follow it and join lane 0 again before
// the next group. So computation runs in the order of the plan, and only messages are waited for.
//
// All decisions are made once, in Make; a step replays flat lists of commands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/channel.h"
#include "executor/device.h"
#include "executor/recorder.h"
#include "executor/stage_work.h"
#include "schedlang/messages/channels.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"

namespace stringline {

// What a message waits for before it may go.
enum class MessageOrder : uint8_t {
  kValues,      // a send for its value
  kListedWork,  // also for every computation that its rank lists before it: the strictest reading
};

class Interpreter {
 public:
  // `device` has the streams of all ranks and `transport` the channels of ChannelsOf(lowered).
  // Everything passed outlives the interpreter; `recorder` may be null.
  //
  // FailedPrecondition when the plan could not be issued as it stands: an action stands before what
  // gives its needs on its own rank, a message goes nowhere, or at the end of the step not every
  // stage has the weight gradient of every microbatch and nothing else.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Make(
      const Plan& lowered, StageWork* work, Device* device, Transport* transport,
      Recorder* recorder, MessageOrder order = MessageOrder::kValues,
      CommLayout layout = CommLayout::kEdge);

  // Enqueues one step of all ranks and submits it.
  void EnqueueStep();

  // The compute stream of a rank's lane 0, for work between steps.
  StreamId ComputeStream(RankId rank) const { return compute_streams_[rank.value]; }

 private:
  friend class StepBuilder;
  enum class CommandKind : uint8_t { kLaunch, kHold, kRecord, kWait, kSend, kRecv };
  struct Command {
    CommandKind kind;
    int32_t stream;    // index into streams_
    int32_t argument;  // works_, holds_ns_, events_ or messages_
    int32_t channel = -1;
  };
  // A stream of the plan: lane `index` of `rank`, or its end of channel `index`.
  enum class StreamKind : uint8_t { kLane, kSend, kRecv };
  struct StreamRow {
    StreamKind kind;
    RankId rank;
    int32_t index;
    int32_t capacity = 0;  // commands per step
  };
  // An event: plan.actions[action] has ended, or its group may begin.
  struct EventRow {
    int32_t action;
    bool begins = false;
  };
  // Work whose start and end are written down.
  struct TimedWork {
    const Device* device;  // its clock
    Work work;
    int64_t* start_ns;
    int64_t* end_ns;
  };

  explicit Interpreter(const Plan& lowered) : plan_(lowered), channels_(ChannelsOf(lowered)) {}

  static void RunTimed(const void* self, int64_t argument);
  static void WriteEnd(const void* self, int64_t argument);
  static std::string PrintStream(const void* self, int64_t index);
  static std::string PrintEvent(const void* self, int64_t index);

  const Plan& plan_;
  const Channels channels_;
  Device* device_ = nullptr;
  Transport* transport_ = nullptr;
  std::vector<StreamRow> stream_rows_;
  std::vector<EventRow> event_rows_;
  std::vector<Work> works_;
  std::vector<TimedWork> timed_works_;
  std::vector<int64_t> holds_ns_;
  std::vector<Message> messages_;
  std::vector<Command> commands_;
  std::vector<StreamId> streams_;
  std::vector<EventId> events_;
  std::vector<StreamId> compute_streams_;
};

}  // namespace stringline
