// The simulator's judge: a small, slow model that goes from one moment to the next and asks of
// every action whether it can begin or end now. Written from the rules in sim/simulate.h; of the
// project it uses only `struct Plan`, the costs, the waits of lists, and what an action needs and
// gives.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/wiring.h"

namespace stringline {

struct SlowTimes {
  bool ends = false;
  std::vector<int64_t> start_ns, end_ns;  // by action
};

// receive_buffers: 0 for any number. `waits`: null where messages are issued as early as they can
// be; else they are issued as written, and lists hold these waits.
SlowTimes RunSlowly(const Plan& lowered, const CostModel& costs, CommLayout layout,
                    int receive_buffers, const std::vector<ListedWait>* waits = nullptr);

}  // namespace stringline
