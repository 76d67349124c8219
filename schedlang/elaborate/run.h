// Performs the rank block once for every rank: loops become passes, actions get their microbatches.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// Fills the actions of `plan`, whose stages and microbatches are known. The counters see
// `padded_microbatches`; actions past plan->microbatches are numbered and then dropped. A rank ends
// at its first finding, and the next rank goes on. False after any finding.
bool RunRanks(const Program& program, int64_t padded_microbatches, const ElaborateLimits& limits,
              Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
