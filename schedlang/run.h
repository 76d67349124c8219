// Performs the rank block once for every rank: loops become passes, actions get their microbatches.
#pragma once

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate.h"
#include "schedlang/eval.h"
#include "schedlang/plan.h"
#include "schedlang/program.h"

namespace stringline {

// Fills the actions of `plan`, whose stages and microbatches are known. The counters see
// `padded_microbatches`; actions past plan->microbatches are numbered and then dropped. A rank ends
// at its first finding, and the next rank goes on. False after any finding.
bool RunRanks(const Program& program, int64_t padded_microbatches, const ElaborateLimits& limits,
              Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
