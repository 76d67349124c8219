// Why an action starts when it does, in words and as JSON: the answer of `explain`.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/sim/explain.h"
#include "tools/json.h"
#include "tools/session.h"

namespace stringline {

// `step` was simulated. Error: the plan has no action of that name ("3B7").
absl::StatusOr<Explanation> Explained(const Session& step, const std::string& name);

// `all`: every link of the chain, however many.
void PrintExplanation(const Session& step, const Explanation& explanation, bool all,
                      std::ostream& out);
Json ExplanationAsJson(const Session& step, const Explanation& explanation);

}  // namespace stringline
