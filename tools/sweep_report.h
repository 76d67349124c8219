// What `check --for …` answers: a table for people, or JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "schedlang/base/source.h"
#include "tools/json.h"
#include "tools/sweep.h"

namespace stringline {

// A sweep, and what it was asked for.
struct SweepReport {
  const Source& source;
  std::string schedule;
  const std::vector<Parameter>& fixed;
  const std::vector<SweepRange>& ranges;
  const SweepPoints& points;
  const SweepResult& result;
  std::vector<std::string> proven;  // the names of the rules
  double elapsed_s = 0;
};

// A row for each value of the first parameter, or for some side by side if they are many, with a
// strip of what holds where; what refused; the first plan that is wrong, in full; the speed.
void PrintSweep(const SweepReport& report, std::ostream& out);

Json SweepAsJson(const SweepReport& report);

}  // namespace stringline
