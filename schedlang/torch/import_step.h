// From traces, one per rank, to the timeline of a step: events of a plan.
//
// The ranks' clocks are aligned by their messages (clock_offsets.h). Ranks of a host share a clock,
// unless a message contradicts. A message lasts from departure to arrival; with NCCL, whose two
// ends wait for each other, from the time at which both ends are ready.
//
// The step begins with its first computation, or with the gathers for it on the same rank: a rank
// that comes to the step earlier, and waits, has not begun it.
//
// Of gloo's messages only the end of the receiver's wait is observed. If the wait began before the
// departure, its end is the arrival. Other messages get the median length of those, and arrive at
// the end of the wait at the latest; Timeline::observed keeps the observed end.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/torch/busy_times.h"
#include "schedlang/torch/clock_offsets.h"
#include "schedlang/torch/rank_trace.h"

namespace stringline {

struct ImportedRank {
  std::string file;
  int rank = 0;            // among all processes
  bool on_device = false;  // times of a GPU, or else of the host
  RankClock clock;
  BusyTimes busy;
};

struct ImportedStep {
  Plan plan;
  Timeline timeline;
  int step = 0;
  std::vector<int> steps;  // the whole ones
  std::vector<ImportedRank> ranks;
  int hosts = 0;              // named by ranks
  int64_t clocks_off_ns = 0;  // AlignedClocks::broken_ns
};

// Traces in any order; `step` as in ChooseStep. Errors, all InvalidArgument that name a file: no
// trace; two traces of a rank; those of FindActions, ChooseStep and PlanOfTraces; times days apart;
// a rank whose GPU ran nothing launched in a range, or a host without observed arrivals.
absl::StatusOr<ImportedStep> ImportStep(std::vector<RankTrace> traces, std::optional<int> step);

}  // namespace stringline
