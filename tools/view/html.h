// Timelines as one HTML file that needs nothing but a browser: no network, no other file.
//
// The page draws every event, zooms and pans, says why an action waited, and sets two timelines
// above each other on one scale. What it is made of lies in page/: its text, style and program are
// embedded into the tool when it is built; page/page_data.h says how the events are embedded into
// the page.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/base/source.h"
#include "schedlang/plan.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/memory_curve.h"
#include "schedlang/timeline.h"

namespace stringline {

// A timeline and what is known about it. Everything must outlive the call that it is given to.
struct PageTimeline {
  // The lowered plan whose actions the events are; null if no plan performs the timeline. Then the
  // page has no messages and no dependencies.
  const Plan* plan = nullptr;
  // The text that the plan's places lie in; null if it has none.
  const Source* source = nullptr;
  const Timeline& timeline;
  const Analysis& analysis;
  const MemoryCurves* memory = nullptr;  // null: no curves
  std::string label;                     // beside the title: "schedules/1f1b.sched"; may be empty
};

// The page, timelines from the top to the bottom; two of them are compared. Text that comes from
// files cannot end up as markup or program. Cost: linear in events.
std::string WritePage(absl::Span<const PageTimeline> timelines);

}  // namespace stringline
