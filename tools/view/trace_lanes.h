// A timeline as rows of slices, in the form that trace viewers want: for every rank the
// computation, a row for each communicator, the parts on the network, data-parallel collectives,
// and copies to and from the host. The slices of a row follow or enclose each other; if messages of
// a communicator overlap (the next leaves while the last is still on its way), the row has a second
// row of the same name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

struct TraceSlice {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t event = 0;  // index into timeline.events
  int32_t part = -1;   // index into timeline.parts; -1: the event itself
};

struct TraceLane {
  RankId rank;
  std::string name;                // "compute", "0->1", "network", "data parallel", "to host"
  std::vector<TraceSlice> slices;  // by start, enclosing slices before enclosed slices
};

// By rank; a rank's computation first. `plan` is the timeline's (PlanOf).
std::vector<TraceLane> TraceLanesOf(const Plan& plan, const Timeline& timeline);

// "3F7", "F.attn".
std::string NameOf(const Timeline& timeline, const TraceSlice& slice);

}  // namespace stringline
