// Where a step's time goes, how far it is from the best possible, and what would help: the answer
// of `report`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/bounds.h"
#include "schedlang/sim/memory_curve.h"
#include "schedlang/sim/network_time.h"
#include "schedlang/timeline.h"
#include "tools/collective_table.h"
#include "tools/json.h"
#include "tools/session.h"
#include "tools/what_if_copies.h"

namespace stringline {

struct TimeReport {
  Bubbles bubbles;
  Analysis analysis;
  // Of the critical path, by what it consists of ("F", "F&B", "messages"), in order of appearance.
  std::vector<std::pair<std::string, int64_t>> critical_ns;
  MemoryCurves memory;
  int64_t capacity = 0;  // of a rank; 0: not known
  std::vector<OverfullRank> overfull;
  std::optional<NetworkTimes> network;  // where parts are known
  CollectiveReport collectives;
  // Of what was simulated only:
  std::optional<LowerBound> bound;
  std::vector<CopiesWhatIf> what_if;
  std::vector<int64_t> runs_ns;  // with jitter, sorted
  int seed = 1;                  // of these
};

// How often a step with jitter among its costs is simulated, and what the first draw begins with.
struct JitterRuns {
  int runs = 200;
  int seed = 1;
};
// Called before each of these, and with -1 before every what-if; false ends the report with
// Cancelled.
using WatchRuns = std::function<bool(int run)>;

// `step` has a plan and a timeline.
absl::StatusOr<TimeReport> MakeReport(
    const Session& step, const JitterRuns& jitter = {},
    const WatchRuns& watch = [](int) { return true; });

void PrintReport(const Session& step, const TimeReport& report, std::ostream& out);
Json ReportAsJson(const Session& step, const TimeReport& report);

}  // namespace stringline
