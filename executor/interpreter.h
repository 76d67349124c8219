// Performs a lowered plan on a device: for each action of each rank, in the plan's order, wait for
// the events of what it needs, launch its work, record an event, hand on what it gives. It knows no
// schedule by name and never looks at the clock.
//
// Streams: every rank has a stream for its compute lane and, where a stage is cut into parts, one
// for its network lane; one per channel it sends on or receives on; and one for the collectives of
// the plan (where it has any). Channels of one communicator share a queue (communicators.h): a call
// starts when the one before it has ended, on whatever streams their parts run. A message that is
// still in flight when it has left its channel (StageWork::InFlight) has a stream of its own.
//
// A group starts when the needs of all its actions are there. An `F a & B b` runs part by part in
// the order of pair_order.h, every other group action by action. So computation runs in the order
// of the plan, and only messages and all-to-alls are waited for.
//
// All decisions are made once, in Make; a step replays flat lists of commands, one a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device.h"
#include "executor/group.h"
#include "executor/message_groups.h"
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

// What the index in the name of a message's call says (Call::name).
struct MessageName {
  bool gradient = false;  // an input gradient going back, or an activation going on
  StageId producer;       // the stage that computed it
  MicrobatchId microbatch;
};
MessageName NameOfMessage(const Plan& plan, int64_t index);

struct InterpreterSettings {
  MessageOrder order = MessageOrder::kValues;
  CommLayout layout = CommLayout::kEdge;
  // Rank r of the plan is rank first_rank + r of the mesh.
  int first_rank = 0;
  // The ranks of the plan that this process performs; nothing: all.
  std::optional<std::vector<RankId>> local = std::nullopt;
  int between = 16;  // launches that a compute stream may be given between steps, at most
};

class Interpreter {
 public:
  // `device` has the streams of the local ranks, and `groups` makes a group for each communicator
  // of the layout, with the ranks that use it. Everything passed outlives the interpreter;
  // `recorder` may be null.
  //
  // FailedPrecondition when the plan could not be issued as it stands: an action stands before what
  // gives its needs on its own rank, a message goes nowhere, or at the end of the step not every
  // stage has the weight gradient of every microbatch and nothing else. Unimplemented when `work`
  // cannot perform one of its actions, or `groups` not the plan's joined messages.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Make(
      const Plan& lowered, StageWork* work, Device* device, Groups* groups, Recorder* recorder,
      const InterpreterSettings& settings = {});
  // The same with groups that were made before.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Make(
      const Plan& lowered, StageWork* work, Device* device, const MessageGroups& messages,
      Recorder* recorder, const InterpreterSettings& settings = {});

  // Enqueues one step of a local rank.
  void EnqueueRank(RankId rank);
  // Of all local ranks.
  void EnqueueStep();

  // The compute stream of a local rank, for work between steps.
  StreamId ComputeStream(RankId rank) const { return streams_[compute_streams_[rank.value]]; }

 private:
  friend class StepBuilder;
  enum class CommandKind : uint8_t { kLaunch, kCopy, kRecord, kWait, kCall, kMark };
  struct Command {
    CommandKind kind;
    int32_t stream;    // index into streams_
    int32_t argument;  // launches_, copies_, events_, calls_ or mark_rows_
  };
  // A stream of the plan: a lane or the collectives of `rank`, or its end of channel `index`.
  // Or what a message waits for when it has left its channel: plan.actions[index], the receive.
  enum class StreamKind : uint8_t { kCompute, kNetwork, kCollectives, kSend, kRecv, kFlight };
  struct StreamRow {
    StreamKind kind;
    RankId rank;
    int32_t index = 0;
    int32_t capacity = 0;  // what a step enqueues
  };
  // plan.actions[action], or only that part of it: of an event, which says that it has ended, or of
  // a mark, after which it begins.
  struct ActionRow {
    int32_t action;
    LayerPart part;
    bool partly = false;
  };
  // Work, and where its times are written down; null: nowhere.
  struct TimedLaunch {
    Work work;
    WorkTimes* times = nullptr;
  };

  explicit Interpreter(const Plan& lowered)
      : plan_(lowered), channels_(ChannelsOf(lowered)), commands_(lowered.ranks()) {}

  RankId RankOf(int32_t action) const;
  static std::string PrintStream(const void* self, int64_t index);
  std::string PrintAction(const ActionRow& row) const;
  static std::string PrintEvent(const void* self, int64_t index);
  static std::string PrintMark(const void* self, int64_t index);
  static std::string PrintPlanned(const void* self, int64_t index);
  static std::string PrintMessage(const void* self, int64_t index);

  const Plan& plan_;
  const Channels channels_;
  Device* device_ = nullptr;
  std::vector<StreamRow> stream_rows_;
  std::vector<ActionRow> event_rows_;
  std::vector<ActionRow> mark_rows_;
  std::vector<TimedLaunch> launches_;
  std::vector<HostCopy> copies_;
  std::vector<MemberCall> calls_;
  std::vector<std::vector<Command>> commands_;  // by rank
  std::vector<StreamId> streams_;
  std::vector<EventId> events_;
  std::vector<int32_t> compute_streams_;  // by rank; -1: not local
};

}  // namespace stringline
