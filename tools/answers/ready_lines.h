// A step in ready order beside the order of its lists, and steps with durations drawn at random.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "schedlang/ask/jitter.h"
#include "schedlang/ask/session.h"
#include "tools/io/json.h"

namespace stringline {

// Both functions say nothing of a step whose plan has no window.
void PrintReady(const Session& step, std::ostream& out);
void AddReady(const Session& step, Json* json);

// `step` was simulated; the draws are of its costs (StepsUnderJitter).
void PrintJitter(const Session& step, const JitteredSteps& draws, std::ostream& out);
// The key `jitter`.
void AddJitter(const Session& step, const JitteredSteps& draws, Json* json);
// The same of steps in the order of their lists alone.
void PrintDraws(const CostModel& costs, const std::vector<int64_t>& listed_ns, std::ostream& out);
Json DrawsAsJson(const CostModel& costs, const std::vector<int64_t>& listed_ns);

}  // namespace stringline
