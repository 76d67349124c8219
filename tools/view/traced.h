// The input of the trace writers for a step.
#pragma once

#include <string>

#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/memory_curve.h"

namespace stringline {

struct TracedStep {
  std::string name;  // "one_f_one_b P=4 M=8, simulated"
  const Timeline& timeline;
  const Plan& plan;      // the lowered plan of the timeline
  const Source* source;  // the plan's places; null: not known
  const Analysis& analysis;
  const MemoryCurves& memory;
};

// The number of microbatches on a rank over time: each from its first F to its last B or W.
MemoryCurve MicrobatchesInFlight(const Timeline& timeline, RankId rank);

}  // namespace stringline
