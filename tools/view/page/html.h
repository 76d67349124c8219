// Timelines as a single HTML file, which needs nothing but a browser: no network, no other file.
//
// The page draws every event, zooms and pans, says why an action waited, and sets two timelines
// above each other on one scale. Its sources are in page/: its text, style and program are
// embedded into the tool at build time; page/page_data.h has the format of the events in
// the page.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/base/source.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/memory_curve.h"

namespace stringline {

// A timeline with its plan, source and analysis, all of which must outlive the call.
struct PageTimeline {
  // The lowered plan whose actions the events are; null if no plan performs the timeline. Then the
  // page has no messages and no dependencies.
  const Plan* plan = nullptr;
  // The text of the plan's places; null without a text.
  const Source* source = nullptr;
  const Timeline& timeline;
  const Analysis& analysis;
  const MemoryCurves* memory = nullptr;  // null: no curves
  std::string label;                     // beside the title: "schedules/1f1b.sched"; may be empty
};

// The page, timelines from the top to the bottom; two timelines are compared. Text of files cannot
// end up as markup or program. Cost: linear in events.
std::string WritePage(absl::Span<const PageTimeline> timelines);

}  // namespace stringline
