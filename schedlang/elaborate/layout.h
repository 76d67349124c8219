// Where the stages live: from `stages N on …` to Plan::stages, and what a search may choose from.
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
#include "schedlang/plan.h"

namespace stringline {

// "line", "v", …
const std::vector<std::string>& LayoutNames();
std::optional<Layout> LayoutNamed(absl::string_view name);

// A layout, and how many stages it puts on every rank.
struct Placing {
  Layout layout = Layout::kLine;
  int64_t stages_per_rank = 1;
  friend bool operator==(const Placing&, const Placing&) = default;
};
std::string Print(const Placing& placing);  // "loop 3"
// How many stages a layout puts on a rank where that is not said. `is_fixed`: no other number is
// possible.
struct StagesPerRank {
  int64_t count = 1;
  bool is_fixed = false;
};
StagesPerRank StagesPerRankOf(Layout layout);
// What is worth a try where stages may live anywhere.
const std::vector<Placing>& AnyPlacings();
// The stages of one row, in order.
std::vector<Stage> StagesOn(const Placing& placing, int64_t ranks);

// Fills plan->stages for `ranks` ranks. False after a finding: stages that do not fit the layout, a
// rank that does not exist, a count out of bounds, or an expression that cannot be evaluated.
bool PlaceStages(const Program& program, int pipe, int64_t ranks, const ElaborateLimits& limits,
                 Evaluator* evaluator, Plan* plan, Diagnostics* diagnostics);

}  // namespace stringline
