// Waits of ranks for gathers and reductions, as a table and as JSON.
#pragma once

#include <optional>
#include <ostream>

#include "schedlang/report/collective_waits.h"
#include "tools/io/json.h"

namespace stringline {

struct CollectiveReport {
  CollectiveWaits waits;
  int64_t makespan_ns = 0;
  std::optional<int64_t> without_ns;  // the makespan without their time; for simulated steps
  int64_t after_ns = 0;               // AfterStepNs
};

// Nothing is printed where they take no time.
void PrintCollectives(const CollectiveReport& report, std::ostream& out);

// Into a report with `ranks`.
void AddCollectiveWaits(const CollectiveReport& report, Json* json);

}  // namespace stringline
