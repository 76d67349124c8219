// What the trace writers are given of a step.
#pragma once

#include <string>

#include "schedlang/base/source.h"
#include "schedlang/plan.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/memory_curve.h"
#include "schedlang/timeline.h"

namespace stringline {

struct TracedStep {
  std::string name;  // "one_f_one_b P=4 M=8, simulated"
  const Timeline& timeline;
  const Plan& plan;      // the lowered plan of the timeline
  const Source* source;  // of the plan's places; null: they are not known
  const Analysis& analysis;
  const MemoryCurves& memory;
};

// How many microbatches a rank holds at a moment: from their first F on it to their last B or W.
MemoryCurve MicrobatchesInFlight(const Timeline& timeline, RankId rank);

}  // namespace stringline
