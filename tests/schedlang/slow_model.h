// The simulator's judge: a small, slow model that goes from one moment to the next and asks of
// every action whether it can begin or end now. Written from the rules in sim/simulate.h; of the
// project it uses only `struct Plan`, the costs and what an action needs and gives.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

struct SlowTimes {
  bool ends = false;
  std::vector<int64_t> start_ns, end_ns;  // by action
};

// receive_buffers: 0 for any number.
SlowTimes RunSlowly(const Plan& lowered, const CostModel& costs, CommLayout layout,
                    int receive_buffers);

}  // namespace stringline
