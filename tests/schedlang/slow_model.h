// The simulator's judge: a small, slow model that goes from one moment to the next and asks of
// every action if it can begin or end now. Written from the rules in sim/simulate.h; of the project
// only `struct Plan`, the costs, the waits of lists, and the table of needs and gives are used.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"

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
