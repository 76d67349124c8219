// Where the stages live: from `stages N on …` to Plan::stages.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/plan.h"

namespace stringline {

// Fills plan->stages for `ranks` ranks. False after a finding: stages that do not fit the layout, a
// rank that does not exist, a count out of bounds, or an expression that cannot be evaluated.
bool PlaceStages(const Program& program, int pipe, int64_t ranks, const ElaborateLimits& limits,
                 Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
