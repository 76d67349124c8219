// How long a rank waits for the gathers and reductions of its copies. Pure: a lowered plan and its
// timeline, simulated or measured.
//
//   gathers     a rank waits for an UNSHARD before a computation for which all else is there: its
//               rank is free, and what other ranks send has come
//   reductions  a rank waits for them from the end of its last computation to that of its last
//               REDUCE_GRAD
//
// What a rank waits does not always make the step longer: another may need longer anyway. That is
// what the same step without them says (WithoutCollectives).
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/timeline.h"

namespace stringline {

struct CollectiveWait {
  int64_t gather_ns = 0;  // what they take
  int64_t gather_wait_ns = 0;
  int64_t reduce_ns = 0;
  int64_t reduce_wait_ns = 0;

  bool any() const { return gather_ns > 0 || reduce_ns > 0; }
};

struct CollectiveWaits {
  std::vector<CollectiveWait> ranks;
  CollectiveWait all;
};

// `timeline.events` are those of `lowered`, in the same places. Cost: linear in actions.
CollectiveWaits MeasureCollectives(const Plan& lowered, const Timeline& timeline,
                                   const Wiring& wiring);

// The costs, with gathers and reductions that take no time.
CostModel WithoutCollectives(CostModel costs);

// The longest that a rank takes, once the optimizer has stepped, to gather what the others did; in
// no timeline (data_parallel.h).
int64_t AfterStepNs(const Plan& plan, const CostModel& costs);

}  // namespace stringline
