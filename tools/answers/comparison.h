// The sources of the difference between two steps, in words and as JSON: the answer of `compare`.
#pragma once

#include <ostream>

#include "schedlang/ask/session.h"
#include "schedlang/report/difference.h"
#include "tools/io/json.h"

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
