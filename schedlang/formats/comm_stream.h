// A step under a runtime that issues every action in the order of its list, as torch's does: how
// long it takes, which send is held up most, and if it never ends, what waits for what.
//
// The times are those of the simulator (sim/simulate.h) with a wiring of WiringAsWritten: a send or
// a receive begins when its queue has come to it and all computation that its rank lists before it
// has ended, and a wait (formats/torch_csv.h) holds the rank until its send or reduction is done.
//
// So a receive that stands early in a list blocks every later message of its queue until its sender
// comes to it. Under `edge` nothing else stands in its queue; under `shared` everything does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/formats/torch_csv.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/wiring.h"

namespace stringline {

// The worst case of a message held up by another: `send` could have left `held_ns` earlier but for
// `recv`, which stood before it in its rank's queue and was not there yet.
struct HeldSend {
  uint32_t send = 0;  // indices into plan.actions
  uint32_t recv = 0;
  int64_t held_ns = 0;
};

// One thing that cannot go on, and why: each is the reason of the one before it.
struct Blocked {
  enum class Why : uint8_t {
    kOtherEnd,     // a call whose other end, the next one, has not started
    kQueue,        // a call behind the next one in its queue
    kComputation,  // a call that its rank lists after the next one, a group
    kWait,         // a call or a group that its rank lists after a wait for the next one, a send
    kNeeds,        // a group that needs what the next one receives
  };
  uint32_t action = 0;  // index into plan.actions
  Why why = Why::kOtherEnd;
};

struct StreamRun {
  bool ends = false;
  int64_t makespan_ns = 0;
  std::optional<HeldSend> worst;
  std::vector<Blocked> circle;  // if it does not end; the last one's reason is the first one
};

// Waits by the places of what they are for. Those whose send or reduction is not in the plan are
// left out: torch_rules.h names them.
std::vector<ListedWait> ListedWaits(const Plan& lowered, const std::vector<TorchWait>& waits);

// What is stuck in a plan that passes Check, and never ends with this wiring of WiringAsWritten.
std::vector<Blocked> CircleOf(const Plan& lowered, const Wiring& wiring, const CostModel& costs);

// `lowered` passes Check; `waits` are in order.
StreamRun RunOnStreams(const Plan& lowered, const std::vector<TorchWait>& waits,
                       const CostModel& costs, CommLayout layout);

}  // namespace stringline
