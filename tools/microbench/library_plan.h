// The library's schedules as lowered plans, for benchmarks.
#pragma once

#include "schedlang/ask/library_plan.h"

namespace stringline {

// schedules/NAME.sched of this checkout; nullopt if the schedule does not admit P and M.
inline std::optional<Plan> LibraryPlan(const std::string& name, int64_t p, int64_t m,
                                       CommLayout layout = CommLayout::kEdge) {
  return PlanOfSchedule(STRINGLINE_SOURCE_DIR "/schedules", name, p, m, layout);
}

}  // namespace stringline
