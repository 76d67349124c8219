// The answer of `check --for …`: a table for people, or JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "schedlang/ask/check_sweep.h"
#include "tools/io/json.h"

namespace stringline {

// A sweep of one schedule, and its request.
struct CheckSweepReport {
  const Sweep& sweep;
  const std::vector<SweepRange>& ranges;
  const CheckedSweep& result;
  std::vector<std::string> proven;  // the names of the rules
  double elapsed_s = 0;

  const SweptSchedule& schedule() const { return sweep.schedules[0]; }
};

// A row for each value of the first parameter, or for several adjacent values if they are many,
// with a strip of verdicts; the refusals; the first wrong plan, in full; the speed.
void PrintCheckSweep(const CheckSweepReport& report, std::ostream& out);

Json CheckSweepAsJson(const CheckSweepReport& report);

}  // namespace stringline
