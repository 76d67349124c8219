// The sources of the difference between two steps, in words and as JSON: the answer of `compare`.
#pragma once

#include <ostream>

#include "schedlang/ask/step_answers.h"
#include "tools/io/json.h"

namespace stringline {

void PrintComparison(const Comparison& comparison, std::ostream& out);
Json ComparisonAsJson(const Comparison& comparison);

}  // namespace stringline
