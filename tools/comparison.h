// Where the difference of two steps comes from, in words and as JSON: the answer of `compare`.
#pragma once

#include <ostream>

#include "schedlang/sim/difference.h"
#include "tools/json.h"
#include "tools/session.h"

namespace stringline {

struct Comparison {
  const Session& first;
  const Session& second;
  Difference difference;
};
// Both have a plan and a timeline, and outlive the comparison.
Comparison Compared(const Session& first, const Session& second);

void PrintComparison(const Comparison& comparison, std::ostream& out);
Json ComparisonAsJson(const Comparison& comparison);

}  // namespace stringline
