// The time of a simulated step, and the waits of its ranks: the answer of `sim`.
#pragma once

#include <ostream>

#include "schedlang/ask/session.h"
#include "tools/io/json.h"

namespace stringline {

// `step` was simulated, or is recorded with a plan.
void PrintSummary(const Session& step, std::ostream& out);
Json SummaryAsJson(const Session& step);

}  // namespace stringline
