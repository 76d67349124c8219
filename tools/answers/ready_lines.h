// A step in ready order beside the order of its lists, and steps with durations drawn at random.
#pragma once

#include <ostream>

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

}  // namespace stringline
