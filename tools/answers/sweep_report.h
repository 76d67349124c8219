// The answer of `check --for …`: a table for people, or JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "schedlang/ask/sweep.h"
#include "schedlang/base/source.h"
#include "tools/io/json.h"

namespace stringline {

// A sweep, and its request.
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

// A row for each value of the first parameter, or for several adjacent values if they are many,
// with a strip of verdicts; the refusals; the first wrong plan, in full; the speed.
void PrintSweep(const SweepReport& report, std::ostream& out);

Json SweepAsJson(const SweepReport& report);

}  // namespace stringline
