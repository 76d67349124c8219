// Answers about a simulated or recorded step: the uses of its time, its distance from a lower bound
// and changes that would help; why an action starts at its time; the difference between two steps.
// All use the step's own links (Session::links).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/what_if_copies.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/balance.h"
#include "schedlang/report/bounds.h"
#include "schedlang/report/collective_waits.h"
#include "schedlang/report/difference.h"
#include "schedlang/report/explain.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/report/network_time.h"

namespace stringline {

// The uses of the step's time. `step` has a plan and a timeline.
Analysis AnalysisOf(const Session& step);

struct TimeReport {
  Bubbles bubbles;
  Analysis analysis;
  // Time on the critical path by kind ("F", "F&B", "messages"), in order of appearance.
  std::vector<std::pair<std::string, int64_t>> critical_ns;
  MemoryCurves memory;
  int64_t capacity = 0;  // per rank; 0: not known
  std::vector<OverfullRank> overfull;
  std::optional<NetworkTimes> network;  // if parts are known
  CollectiveReport collectives;
  // For simulated steps only:
  std::optional<int64_t> period_ns;          // PeriodOf
  std::optional<MicrobatchBalance> balance;  // of unequal microbatches
  std::optional<LowerBound> bound;
  std::vector<CopiesWhatIf> what_if;
  std::vector<int64_t> runs_ns;  // with jitter, sorted
  int seed = 1;                  // the runs' first seed
};

// Called before each simulation, and with -1 before every what-if; false ends the report with
// Cancelled.
using WatchRuns = std::function<bool(int run)>;

// `step` has a plan and a timeline.
absl::StatusOr<TimeReport> MakeReport(
    const Session& step, const JitterRuns& jitter = {},
    const WatchRuns& watch = [](int) { return true; });

// `step` was simulated. Errors: the plan lacks an action with this name ("3B7"); messages were
// issued as written, whose waits are not explained.
absl::StatusOr<Explanation> Explained(const Session& step, const std::string& name);

struct Comparison {
  const Session& first;
  const Session& second;
  Difference difference;
};
// Both have a plan and a timeline, and outlive the comparison.
Comparison Compared(const Session& first, const Session& second);

}  // namespace stringline
