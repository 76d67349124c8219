// Performs a lowered plan on a device: for each action of each rank, in the plan's order, wait for
// the events of its dependencies, launch its work, record an event, pass its outputs on. It knows
// no schedule by name and never looks at the clock.
//
// Streams: every rank has a stream for its compute lane and, if a stage is cut into parts, a stream
// for its network lane; a stream per channel that it sends or receives on; and a stream for the
// plan's collectives, if any. Channels of one communicator share a queue (communicators.h): a call
// starts when the call before it has ended, on whatever streams their parts run. A message that is
// still in flight after leaving its channel (StageWork::InFlight) has a stream of its own.
//
// A group starts when the dependencies of all its actions are met. An `F a & B b`, a group with an
// `overlap` of the plan, and an action in chunks run part by part in the order of group_order.h,
// every other group action by action. So computation runs in the plan's order, and waits only for
// messages, all-to-alls and parameters. A computation alone on its rank meets the buckets of
// gathers and reductions one by one (schedlang/plan/buckets.h).
//
// In a plan with a window (schedlang/plan/ready.h) the F of each stage, its B or I, and its W have
// streams of their own, in the order of the list, and the computations of a rank take turns
// (Device::Turn): messages and ends of computations tell what is ready, and its list chooses.
//
// All other decisions are made once, in Make; a step replays flat lists of commands, one list per
// rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/engine/device.h"
#include "executor/engine/group.h"
#include "executor/engine/message_groups.h"
#include "executor/engine/rank_turns.h"
#include "executor/engine/recorder.h"
#include "executor/engine/stage_work.h"
#include "executor/engine/step_commands.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The dependencies of a message.
enum class MessageOrder : uint8_t {
  kValues,      // a send for its value
  kListedWork,  // also for every computation that its rank lists before it: the strictest reading
};

struct InterpreterSettings {
  MessageOrder order = MessageOrder::kValues;
  CommLayout layout = CommLayout::kEdge;
  // Rank r of the plan is rank first_rank + r of the mesh.
  int first_rank = 0;
  // The plan's ranks that this process performs; nullopt: all.
  std::optional<std::vector<RankId>> local = std::nullopt;
  // The plan's links for the layout, which outlive Make; null: a plan with collectives makes them.
  const Wiring* links = nullptr;
  int between = 16;  // bound of the launches on a compute stream between two steps
};

class Interpreter {
 public:
  // `device` has the streams of the local ranks, and `groups` makes a group for each communicator
  // of the layout, with the ranks that use it. Every argument outlives the interpreter; `recorder`
  // may be null.
  //
  // FailedPrecondition if the plan cannot be issued in its order: an action precedes the producer
  // of its dependencies on its own rank, a message has no peer, or the step ends with other values
  // than the weight gradient of every stage and microbatch. Unimplemented if `work` cannot perform
  // an action, or `groups` not the plan's joined messages.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Make(
      const Plan& lowered, StageWork* work, Device* device, Groups* groups, Recorder* recorder,
      const InterpreterSettings& settings = {});
  // The same with groups that were made before.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Make(
      const Plan& lowered, StageWork* work, Device* device, const MessageGroups& messages,
      Recorder* recorder, const InterpreterSettings& settings = {});

  // Enqueues one step of a local rank.
  void EnqueueRank(RankId rank);
  // Enqueues one step of all local ranks.
  void EnqueueStep();

  // The compute stream of a local rank, for work between steps.
  StreamId ComputeStream(RankId rank) const { return streams_[compute_streams_[rank.value]]; }

 private:
  Interpreter(const Plan& lowered, Device* device)
      : plan_(lowered), device_(device), commands_(lowered, device->ShowsMarks()) {}
  void MakeStreams(const InterpreterSettings& settings);

  const Plan& plan_;
  Device* const device_;
  StepCommands commands_;
  std::vector<StreamId> streams_;  // of commands_, as events_
  std::vector<EventId> events_;
  std::vector<int32_t> compute_streams_;           // by rank; -1: not local
  std::vector<std::unique_ptr<RankTurns>> turns_;  // by rank, with a window
};

}  // namespace stringline
