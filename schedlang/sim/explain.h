// Why an action starts when it does: the chain of waits from it back to the start of the step, and
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
#include "schedlang/timeline.h"

namespace stringline {

// Why a group of a rank did not start earlier.
enum class WaitReason : uint8_t {
  kNothing,  // it starts with the step
  kRank,     // the rank performed `cause` until then
  kMessage,  // a value came from another rank just then
  kQueue,    // so did a value, but it was there earlier and left late; the chain ends here
  kGather,   // the parameters of a stage were gathered until then; the chain ends here
};

// A group and what it waited for. Groups are named by the index of their first part in
// plan.actions.
struct WaitLink {
  uint32_t group = 0;
  WaitReason reason = WaitReason::kNothing;
  uint32_t cause = 0;   // for kRank and kMessage: the group that ended last before this could start
  int64_t idle_ns = 0;  // how long the rank did nothing before it
  // For kMessage and kQueue: what came, the part that needs it, when it left and when it was there.
  // For kGather: the part whose stage it is.
  Values value = 0;
  uint32_t part = 0;
  uint32_t giver = 0;  // the computation that gave it
  int64_t sent_ns = 0;
  int64_t arrived_ns = 0;
  // The send that had to leave first and waited for `cause`, when that was not the message's own
  // giver: messages between two ranks keep their order.
  std::optional<uint32_t> behind;
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
// Simulate(lowered, …). The chain ends at a group that starts at time 0. Cost: linear in actions.
Explanation Explain(const Plan& lowered, const Timeline& timeline, uint32_t action);

// The computation that the text names: "3B7", "up[3]B7". Errors: InvalidArgument that says what
// there is instead.
absl::StatusOr<uint32_t> FindAction(const Plan& plan, absl::string_view text);

}  // namespace stringline
