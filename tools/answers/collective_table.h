// Waits of ranks for gathers and reductions, as a table and as JSON.
#pragma once

#include <ostream>

#include "schedlang/report/collective_waits.h"
#include "tools/io/json.h"

namespace stringline {

// Nothing is printed where they take no time.
void PrintCollectives(const CollectiveReport& report, std::ostream& out);

// Into a report with `ranks`.
void AddCollectiveWaits(const CollectiveReport& report, Json* json);

}  // namespace stringline
