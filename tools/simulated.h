// From FILE to a timeline: what `sim` and `show` have in common.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "schedlang/timeline.h"
#include "tools/load.h"

namespace stringline {

// Without findings `timeline` is there.
struct LoadedTimeline {
  Source source;
  std::optional<Timeline> timeline;
  Diagnostics diagnostics;
};

// A `.timeline` as it is; anything else loaded, checked and simulated with the given costs. Errors:
// those of LoadPlan and LoadCosts; parameters or costs given for a `.timeline`.
absl::StatusOr<LoadedTimeline> LoadTimeline(const Flags& flags);

}  // namespace stringline
