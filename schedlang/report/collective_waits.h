// Waits of a rank for the gathers and reductions of its copies. Pure: a lowered plan and its
// timeline, simulated or measured.
//
//   gathers     a rank waits for an UNSHARD before a computation for which all else is ready: its
//               rank is free, and the messages of other ranks have come; and within a computation
//               that meets buckets (plan/buckets.h)
//   reductions  a rank waits for them from the end of its last computation to the end of its last
//               REDUCE_GRAD
//
// Such a wait does not always make the step longer: another rank may need longer anyway. The same
// step without collectives tells (WithoutCollectives).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

struct CollectiveWait {
  int64_t gather_ns = 0;  // the total time of gathers
  int64_t gather_wait_ns = 0;
  int64_t reduce_ns = 0;
  int64_t reduce_wait_ns = 0;

  bool any() const { return gather_ns > 0 || reduce_ns > 0; }
};

struct CollectiveWaits {
  std::vector<CollectiveWait> ranks;
  CollectiveWait all;
};

// The waits, beside the step without collectives.
struct CollectiveReport {
  CollectiveWaits waits;
  int64_t makespan_ns = 0;
  std::optional<int64_t> without_ns;  // the makespan without their time; for simulated steps
  int64_t after_ns = 0;               // AfterStepNs
};

// `timeline.events` are those of `lowered`, in the same places. Cost: linear in actions.
CollectiveWaits MeasureCollectives(const Plan& lowered, const Timeline& timeline,
                                   const Wiring& wiring);

// The costs, with gathers and reductions of no duration.
CostModel WithoutCollectives(CostModel costs);

// After the optimizer's step, the longest time of a rank to gather the parameters updated by other
// ranks; in no timeline (data_parallel.h).
int64_t AfterStepNs(const Plan& plan, const CostModel& costs);

}  // namespace stringline
