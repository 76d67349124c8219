// The reason for an action's start: the chain of waits from it back to the start of the step,
// through ranks, messages, the queues and receive buffers that hold messages up, and collectives;
// and the groups that wait for the action. Pure: a plan and its simulated timeline -> links.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/effects.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// Why a group of a rank, a message or a collective did not start earlier.
enum class WaitReason : uint8_t {
  kNothing,     // the action starts with the step
  kRank,        // the rank performed `cause` until then
  kMessage,     // for a group: a value came from another rank just then
  kGather,      // for a group: `cause` gathered the parameters of a stage until then, or summed
                // the gradients that an UPDATE takes
  kValue,       // for a message: `cause` had just made its value
  kQueue,       // for a message: `cause`, a message before, left its queue just then
  kBuffer,      // for a message: `cause` had just given back a receive buffer
  kCollective,  // for a collective: the rank's collective before ended just then
  kOtherRank,   // for a reduction: `cause`, its part on another rank, could not start earlier
  kCopy,        // for a group or a copy: `cause`, a copy of its rank, ended just then
  kOwn,         // `cause` had just ended, on this rank or another: one of them is a schedule's own
};
constexpr int kWaitReasons = 11;

// An event of the step and its reason. Groups are named by the index of their first part in
// plan.actions, messages by their send.
struct WaitLink {
  uint32_t action = 0;
  WaitReason reason = WaitReason::kNothing;
  uint32_t cause = 0;  // the subject of the next link
  // The stretch of the step accounted to this link: from the release by its cause until it releases
  // the subject of the link before. A message releases when it has arrived, or has left the queue
  // in which another message stood behind; another rank's part of a reduction releases when its
  // rank comes. If a group waited for a message with a departure right after its value was made,
  // the group's stretch begins at this departure, and the message has no link.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t idle_ns = 0;  // for a group: the idle time of its rank before it
  // For kMessage: the value, the part in need, the computation that gave the value, departure and
  // arrival. For kGather: the part with the gathered stage.
  Values value = 0;
  uint32_t part = 0;
  uint32_t giver = 0;
  int64_t sent_ns = 0;
  int64_t arrived_ns = 0;
  // For kQueue: whose queue on which communicator. For kBuffer: whose buffer.
  RankId rank;
  int32_t queue = -1;  // index into QueuesOf(ChannelsOf(plan), layout).all
  // For kValue and kBuffer, if messages are a single call: the part of the call with this reason,
  // if another.
  std::optional<uint32_t> together_with;
};

// A group in need of the rank, or a value, of another group.
struct WaitingGroup {
  uint32_t group = 0;
  WaitReason reason = WaitReason::kRank;
  Values value = 0;  // for kMessage, or a value within the rank
  uint32_t part = 0;
  uint32_t giver = 0;
  int64_t ready_ns = 0;  // when its need is met
};

struct Explanation {
  std::vector<WaitLink> chain;      // the group asked for first, the start of the step last
  std::vector<WaitingGroup> after;  // in the order of their starts
};

// Explains the group of plan.actions[action], a computation. `timeline` comes from
// Simulate(lowered, wiring, costs). The chain ends at an event at time 0; every link ends when the
// link before begins. Cost: linear in actions.
Explanation Explain(const Plan& lowered, const Timeline& timeline, const Wiring& wiring,
                    const CostModel& costs, uint32_t action);

// The computation with the name: "3B7", "up[3]B7". Errors: InvalidArgument with the existing names.
absl::StatusOr<uint32_t> FindAction(const Plan& plan, absl::string_view text);

}  // namespace stringline
