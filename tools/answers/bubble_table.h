// The uses of a step's time, as tables for people and as JSON.
#pragma once

#include <ostream>

#include "schedlang/ask/session.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/report/analysis.h"
#include "tools/io/json.h"

namespace stringline {

// {"ok", "schedule", "parameters", "makespan_us", …, "ranks": [{…, "causes_us": {…}}]}. `step` has
// a timeline with its plan, here and below.
Json BubblesAsJson(const Session& step, const Bubbles& bubbles, const CausesByRank& causes);

// The order's own costs, makespan, span, and a line for every rank.
void PrintBubbles(const Session& step, const Bubbles& bubbles, std::ostream& out);

// The idle time of all ranks by cause.
void PrintCauses(const CausesByRank& of_ranks, std::ostream& out);

// The same for every rank, a column a cause.
void PrintCausesOfRanks(const Analysis& analysis, std::ostream& out);

}  // namespace stringline
