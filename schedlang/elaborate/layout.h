// The layout of stages: from `stages N on …` to Plan::stages, and the choices of a search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/program.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// "line", "v", …
const std::vector<std::string>& LayoutNames();
std::optional<Layout> LayoutNamed(absl::string_view name);

// A layout with its number of stages per rank.
struct Placing {
  Layout layout = Layout::kLine;
  int64_t stages_per_rank = 1;
  friend bool operator==(const Placing&, const Placing&) = default;
};
std::string Print(const Placing& placing);  // "loop 3"
// The default number of stages per rank of a layout. `is_fixed`: no other number is possible.
struct StagesPerRank {
  int64_t count = 1;
  bool is_fixed = false;
};
StagesPerRank StagesPerRankOf(Layout layout);
// The layouts to try for `place any`.
const std::vector<Placing>& AnyPlacings();
// The stages of a row, in order.
std::vector<Stage> StagesOn(const Placing& placing, int64_t ranks);

// Fills plan->stages for `ranks` ranks. False after a finding: stages that do not fit the layout,
// an unknown rank, a count out of bounds, or an expression that cannot be evaluated.
bool PlaceStages(const Program& program, int pipe, int64_t ranks, const ElaborateLimits& limits,
                 Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
