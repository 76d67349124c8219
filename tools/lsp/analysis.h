// What an editor is told while its text is written: what is wrong with it, and each schedule's
// plan for parameters that nobody had to give.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/plan.h"
#include "schedlang/text/uses.h"

namespace stringline {

// So small that all of it is done between two keys.
inline constexpr ElaborateLimits kTypingLimits = {
    .actions = 20'000, .steps = 100'000, .ranks = 256, .searched_letters = 200'000};

struct ScheduleAnalysis {
  std::string name;
  std::optional<Plan> plan;  // elaborated, not lowered
};

struct TextAnalysis {
  Diagnostics findings;
  std::vector<ScheduleAnalysis> schedules;  // of a text that parses, in its order
  std::set<std::string> used;               // the paths of the files that it uses
};

// Parses, resolves, and elaborates and checks every schedule twice: for the smallest P and M in
// 2 .. 8 that its `require`s let pass, and for P=4 M=8 if they let that pass. The plan is that of
// the latter, or else of the former. A schedule that lets none of these pass has no plan, and no
// findings of that kind. Searched orders are those that are kept beside the file, or what few
// iterations find. All that is bounded: by kTypingLimits, in how often a file's schedules are
// elaborated, and a text over 1 MiB is not looked at. What is wrong in a file that it uses is told
// where it is used.
TextAnalysis Analyze(const Source& text, const ReadUsed& read);

}  // namespace stringline
