// Why an action starts when it does: the chain of waits from it back to the start of the step,
// through ranks, messages, the queues and receive buffers that those wait for, and collectives; and
// what waits for it afterwards. Pure: a plan and its simulated timeline -> links.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/effects.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"

namespace stringline {

// Why a group of a rank, a message or a collective did not start earlier.
enum class WaitReason : uint8_t {
  kNothing,     // it starts with the step
  kRank,        // the rank performed `cause` until then
  kMessage,     // of a group: a value came from another rank just then
  kGather,      // of a group: the parameters of a stage were gathered until then
  kValue,       // of a message: `cause` had just made what it carries
  kQueue,       // of a message: `cause`, a message before it, left its queue just then
  kBuffer,      // of a message: `cause` had just given back a receive buffer
  kCollective,  // of a collective: the one before it on its rank ended just then
  kOtherRank,   // of a reduction: `cause`, its part on another rank, could not start earlier
};
constexpr int kWaitReasons = 9;

// Something of the step and what it waited for. Groups are named by the index of their first part
// in plan.actions, messages by their send.
struct WaitLink {
  uint32_t action = 0;
  WaitReason reason = WaitReason::kNothing;
  uint32_t cause = 0;  // what the next link is about
  // The stretch of the step that this link accounts for: from when its cause let it go to when it
  // let go what the link before it is about. Of a message that is when it has arrived, or left the
  // queue in which another one stood behind it; of another rank's part of a reduction when it came.
  // A group that waited for a message that left as soon as it was made begins where that left:
  // there is no link for the message.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t idle_ns = 0;  // of a group: how long the rank did nothing before it
  // For kMessage: what came, the part that needs it, the computation that gave it, when it left and
  // when it was there. For kGather: the part whose stage it is.
  Values value = 0;
  uint32_t part = 0;
  uint32_t giver = 0;
  int64_t sent_ns = 0;
  int64_t arrived_ns = 0;
  // For kQueue: whose queue on which communicator. For kBuffer: whose buffer.
  RankId rank;
  int32_t queue = -1;  // index into QueuesOf(ChannelsOf(plan), layout).all
  // For kValue and kBuffer, where messages are one call: the part of the call that this is about,
  // if it is another.
  std::optional<uint32_t> together_with;
};

// A group that needs what another one leaves: the rank, or a value.
struct WaitingGroup {
  uint32_t group = 0;
  WaitReason reason = WaitReason::kRank;
  Values value = 0;  // for kMessage, or a value that stays on the rank
  uint32_t part = 0;
  uint32_t giver = 0;
  int64_t ready_ns = 0;  // when what it waits for is there
};

struct Explanation {
  std::vector<WaitLink> chain;      // the group asked for first, the start of the step last
  std::vector<WaitingGroup> after;  // in the order of their starts
};

// Explains the group that plan.actions[action], a computation, belongs to. `timeline` is that of
// Simulate(lowered, costs, …). The chain ends at what starts at time 0; every link ends when the
// one before it begins. Cost: linear in actions.
Explanation Explain(const Plan& lowered, const Timeline& timeline, const CostModel& costs,
                    uint32_t action);

// The computation that the text names: "3B7", "up[3]B7". Errors: InvalidArgument that says what
// there is instead.
absl::StatusOr<uint32_t> FindAction(const Plan& plan, absl::string_view text);

}  // namespace stringline
