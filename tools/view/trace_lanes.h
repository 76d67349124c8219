// A timeline as rows of slices, the way trace viewers want them: for every rank the computation, a
// row for each communicator, all-to-alls, and data-parallel collectives. The slices of a row follow
// or enclose each other; where messages of one communicator overlap (the next one leaves while the
// last is still on its way), the row has a second one of the same name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/timeline.h"

namespace stringline {

struct TraceSlice {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t event = 0;  // index into timeline.events
  int32_t part = -1;   // index into timeline.parts; -1: the event itself
};

struct TraceLane {
  RankId rank;
  std::string name;                // "compute", "0->1", "all-to-all", "data parallel"
  std::vector<TraceSlice> slices;  // by start, what encloses another before it
};

// By rank; a rank's computation first. `plan` is the one of the timeline (PlanOf).
std::vector<TraceLane> TraceLanesOf(const Plan& plan, const Timeline& timeline);

// "3F7", "F.attn".
std::string NameOf(const Timeline& timeline, const TraceSlice& slice);

}  // namespace stringline
