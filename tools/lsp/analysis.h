// The analysis of a text while it is written: its findings, and each schedule's plan for parameters
// that the editor chooses.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/plan/plan.h"
#include "schedlang/text/uses.h"

namespace stringline {

// Limits so small that the analysis ends between two keys.
inline constexpr ElaborateLimits kTypingLimits = {
    .actions = 20'000, .steps = 100'000, .ranks = 256, .searched_letters = 200'000};

struct ScheduleAnalysis {
  std::string name;
  std::optional<Plan> plan;  // elaborated, not lowered
};

struct TextAnalysis {
  Diagnostics findings;
  std::vector<ScheduleAnalysis> schedules;  // for a text that parses, in its order
  std::set<std::string> used;               // the paths of all used files
};

// Parses, resolves, and elaborates and checks every schedule twice: for the smallest P and M in 2
// .. 8 that its `require`s admit, and for P=4 M=8 if they admit these. The plan is of the latter,
// or else of the former. A schedule that admits none of these has no plan, and no findings of this
// kind. Searched orders are kept beside the file, or found in few iterations.
//
// All work is bounded: by kTypingLimits, by the number of elaborations per file, and a text over 1
// MiB is not analysed. Findings in a used file are reported at its `use`.
TextAnalysis Analyze(const Source& text, const ReadUsed& read);

}  // namespace stringline
