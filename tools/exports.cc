#include "tools/exports.h"

#include <list>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/sim/analysis.h"
#include "schedlang/sim/memory_curve.h"
#include "tools/view/chrome_trace.h"
#include "tools/view/html.h"
#include "tools/view/perfetto.h"
#include "tools/view/svg.h"
#include "tools/view/words.h"
#include "tools/write_file.h"

namespace stringline {
namespace {

// What a traced step refers to.
struct Details {
  Analysis analysis;
  MemoryCurves memory;
};

}  // namespace

absl::StatusOr<bool> WriteExports(const Flags& flags, const std::vector<Session>& steps) {
  if (!flags.svg.empty()) {
    std::vector<const Timeline*> timelines;
    for (const Session& step : steps) timelines.push_back(&*step.timeline);
    SvgStyle style;
    if (flags.width > 0) style.width = flags.width;
    style.lanes = flags.lanes;
    style.title = !flags.no_title;
    style.grey = flags.palette == "grey";
    SL_RETURN_IF_ERROR(WriteFileAtomically(flags.svg, DrawSvg(timelines, style)));
  }
  if (flags.html.empty() && flags.perfetto.empty() && flags.chrome.empty()) {
    return !flags.svg.empty();
  }
  std::list<Details> details;
  std::vector<PageTimeline> pages;
  std::vector<TracedStep> traced;
  for (const Session& step : steps) {
    if (!step.plan) {
      return absl::InvalidArgumentError(step.source.path() +
                                        ": the timeline has stages on two ranks, or on none");
    }
    const std::vector<StageMemory> none;
    details.push_back({AnalysisOf(step), MemoryOver(*step.plan, *step.timeline,
                                                    step.costs ? step.costs->memory : none)});
    const bool recorded = !step.costs;
    pages.push_back({&*step.plan, recorded ? nullptr : &step.source, *step.timeline,
                     details.back().analysis, &details.back().memory, step.source.path()});
    traced.push_back({absl::StrCat(TitleOf(*step.timeline), ", ", step.timeline->origin),
                      *step.timeline, *step.plan, recorded ? nullptr : &step.source,
                      details.back().analysis, details.back().memory});
  }
  if (!flags.html.empty()) {
    SL_RETURN_IF_ERROR(WriteFileAtomically(flags.html, WritePage(pages)));
  }
  if (!flags.perfetto.empty()) {
    SL_RETURN_IF_ERROR(WriteFileAtomically(flags.perfetto, WritePerfetto(traced)));
  }
  if (!flags.chrome.empty()) {
    SL_RETURN_IF_ERROR(WriteFileAtomically(flags.chrome, WriteChromeTrace(traced)));
  }
  return true;
}

}  // namespace stringline
