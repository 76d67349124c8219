// From FILE to a timeline and where its time goes: what `sim`, `show` and `report` have in common.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/timeline.h"
#include "tools/load.h"

namespace stringline {

// Without findings `timeline` is there, and but for a recorded one that no plan performs (PlanOf)
// `plan` is too, lowered. `costs` are there for what was simulated.
struct LoadedTimeline {
  Source source;
  Diagnostics diagnostics;
  std::optional<Plan> plan;
  std::optional<CostModel> costs;
  std::optional<Timeline> timeline;
};

// A `.timeline` as it is; anything else loaded, checked and simulated with the given costs and
// layout. Errors: those of LoadPlan and LoadCosts; parameters or costs given for a `.timeline`.
absl::StatusOr<LoadedTimeline> LoadTimeline(const Flags& flags);

// Where its time goes. `loaded` has a plan.
Analysis AnalysisOf(const LoadedTimeline& loaded);

}  // namespace stringline
