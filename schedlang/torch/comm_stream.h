// A step under a runtime that issues every action in list order, as torch's does: its length, the
// send delayed most, and if it never ends, the cycle of waits.
//
// The times are those of the simulator (sim/simulate.h) with a wiring of WiringAsWritten: a send or
// a receive begins when its queue has come to it and all computation listed before it on its rank
// has ended, and a wait (torch/torch_csv.h) holds the rank until its send or reduction is done.
//
// So a receive early in a list blocks every later message of its queue until its sender comes to
// it. Under `edge` its queue has no other messages; under `shared` all messages are in it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/torch/torch_csv.h"

namespace stringline {

// The worst delay of a message by another: `send` could have left `held_ns` earlier without `recv`,
// which precedes it in its rank's queue and had not arrived.
struct HeldSend {
  uint32_t send = 0;  // indices into plan.actions
  uint32_t recv = 0;
  int64_t held_ns = 0;
};

// An action that cannot go on, and its reason, which is the next action of the cycle.
struct Blocked {
  enum class Why : uint8_t {
    kOtherEnd,     // a call whose other end, the next action, has not started
    kQueue,        // a call behind the next action in its queue
    kComputation,  // a call listed after the next action, a group
    kWait,         // a call or a group listed after a wait for the next action, a send
    kNeeds,        // a group that needs the value of the next action, a receive
  };
  uint32_t action = 0;  // index into plan.actions
  Why why = Why::kOtherEnd;
};

struct StreamRun {
  bool ends = false;
  int64_t makespan_ns = 0;
  std::optional<HeldSend> worst;
  std::vector<Blocked> cycle;  // if the step does not end; the last action's reason is the first
};

// Waits by the places of their sends or reductions. Waits without one in the plan are left out:
// torch_rules.h reports them.
std::vector<ListedWait> ListedWaits(const Plan& lowered, const std::vector<MessageWait>& waits);

// The cycle in a plan that passes Check, but never ends with this wiring of WiringAsWritten.
std::vector<Blocked> CycleOf(const Plan& lowered, const Wiring& wiring, const CostModel& costs);

// `lowered` passes Check; `waits` are in order.
StreamRun RunOnStreams(const Plan& lowered, const std::vector<MessageWait>& waits,
                       const CostModel& costs, CommLayout layout);

}  // namespace stringline
