// Where the time of a step goes, as tables for people and as JSON.
#pragma once

#include <ostream>

#include "schedlang/sim/analysis.h"
#include "schedlang/timeline.h"
#include "tools/json.h"

namespace stringline {

// {"ok", "schedule", "parameters", "makespan_us", …, "ranks": [{…, "causes_us": {…}}]}
Json BubblesAsJson(const Timeline& timeline, const Bubbles& bubbles, const Analysis& analysis);

// Makespan, span, and a line for every rank.
void PrintBubbles(const Timeline& timeline, const Bubbles& bubbles, std::ostream& out);

// The idle time of all ranks by cause.
void PrintCauses(const Analysis& analysis, std::ostream& out);

// The same for every rank, a column a cause.
void PrintCausesOfRanks(const Analysis& analysis, std::ostream& out);

}  // namespace stringline
