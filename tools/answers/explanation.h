// The reason for an action's start, in words and as JSON: the answer of `explain`.
#pragma once

#include <ostream>

#include "schedlang/ask/session.h"
#include "schedlang/report/explain.h"
#include "tools/io/json.h"

namespace stringline {

// `step` was simulated. `all`: every link of the chain, however many.
void PrintExplanation(const Session& step, const Explanation& explanation, bool all,
                      std::ostream& out);
Json ExplanationAsJson(const Session& step, const Explanation& explanation);

}  // namespace stringline
