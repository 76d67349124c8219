// How long a simulated step takes, and who waits for what: the answer of `sim`.
#pragma once

#include <ostream>

#include "tools/json.h"
#include "tools/session.h"

namespace stringline {

// `step` was simulated, or is recorded with a plan.
void PrintSummary(const Session& step, std::ostream& out);
Json SummaryAsJson(const Session& step);

}  // namespace stringline
