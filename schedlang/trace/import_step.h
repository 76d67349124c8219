// From traces, one a rank, to a timeline of one step: what happened, as a plan's events.
//
// The ranks' clocks are laid beside each other by their messages (clock_offsets.h). Ranks of one
// host have one clock, if no message says otherwise. A message lasts from when it left to when it
// arrived; with NCCL, whose two ends wait for each other, from when both ends were there.
//
// The step begins with its first computation, or with what that one's rank gathers for it: a rank
// that comes to the step before, and waits, has not begun it.
//
// Of gloo's messages only the moment is observed at which their receiver had waited for them. Where
// it began to wait before they left, that is their arrival. Others are told to take as long as
// half of those do, and to arrive at that moment at the latest; Timeline::observed keeps it.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/timeline.h"
#include "schedlang/trace/busy_times.h"
#include "schedlang/trace/clock_offsets.h"
#include "schedlang/trace/rank_trace.h"

namespace stringline {

struct ImportedRank {
  std::string file;
  int rank = 0;            // among all processes
  bool on_device = false;  // what a GPU did, or else the host
  RankClock clock;
  BusyTimes busy;
};

struct ImportedStep {
  Plan plan;
  Timeline timeline;
  int step = 0;
  std::vector<int> steps;  // that are whole
  std::vector<ImportedRank> ranks;
  int hosts = 0;              // that ranks name
  int64_t clocks_off_ns = 0;  // AlignedClocks::broken_ns
};

// Traces in any order; `step` as ChooseStep takes it. Errors, all InvalidArgument that name a file:
// no trace; two of one rank; those of ChooseStep and PlanOfTraces; times that are days apart;
// a rank whose GPU ran nothing that a range launched, or a host that nothing tells of arrivals.
absl::StatusOr<ImportedStep> ImportStep(std::vector<RankTrace> traces, std::optional<int> step);

}  // namespace stringline
