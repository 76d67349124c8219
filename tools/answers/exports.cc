#include "tools/answers/exports.h"

#include <list>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/step_answers.h"
#include "schedlang/base/status.h"
#include "schedlang/report/analysis.h"
#include "schedlang/report/memory_curve.h"
#include "tools/io/progress.h"
#include "tools/view/chrome_trace.h"
#include "tools/view/page/html.h"
#include "tools/view/perfetto.h"
#include "tools/view/rendered_picture.h"
#include "tools/view/svg.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr size_t kManyBytes = 100'000'000;

// Figures of a step for its trace.
struct Details {
  Analysis analysis;
  MemoryCurves memory;
};

absl::Status WritePictures(const Flags& flags, const ShownPart& part,
                           const std::vector<Session>& steps, const Output& output) {
  if (flags.svg.empty() && flags.picture.empty()) return absl::OkStatus();
  std::vector<const Timeline*> timelines;
  for (const Session& step : steps) timelines.push_back(&*step.timeline);
  SvgStyle style;
  if (flags.width > 0) style.width = flags.width;
  style.lanes = flags.lanes;
  style.fold = flags.fold;
  style.title = !flags.no_title;
  style.grey = flags.palette == "grey";
  style.part = part;
  PictureFormat format = PictureFormat::kSvg;
  if (!flags.picture.empty()) {
    SL_ASSIGN_OR_RETURN(format, PictureFormatOf(flags.picture));
  }
  const std::string svg = DrawSvg(timelines, style);
  if (!flags.svg.empty()) SL_RETURN_IF_ERROR(WriteAsked(output, flags.svg, svg));
  if (flags.picture.empty()) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(const std::string picture, Rendered(svg, format));
  return WriteAsked(output, flags.picture, picture);
}

// Writes the text of `make`, if the option is given and the text is not too large.
template <typename Make>
absl::Status WriteLarge(const LargeFile& file, const std::string& path, const Flags& flags,
                        const std::vector<Session>& steps, const Output& output, Make make) {
  if (path.empty()) return absl::OkStatus();
  const Progress progress(output, absl::StrCat("writing ", path));
  const auto refusal = [&](const char* about, size_t bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.option, " ", path, ": it would have ", about, bytes / 1'000'000,
                     " MB; --force writes it all the same, smaller P and M make it smaller"));
  };
  size_t least = 0;
  for (const Session& step : steps) {
    least += step.timeline->events.size() * file.least_bytes_per_event;
  }
  if (least > kManyBytes && !flags.force) return refusal("at least ", least);
  const std::string text = make();
  if (text.size() > kManyBytes && !flags.force) return refusal("", text.size());
  return WriteAsked(output, path, text);
}

}  // namespace

absl::StatusOr<bool> WriteExports(const Flags& flags, const ShownPart& part,
                                  const std::vector<Session>& steps, const Output& output) {
  SL_RETURN_IF_ERROR(WritePictures(flags, part, steps, output));
  if (flags.html.empty() && flags.perfetto.empty() && flags.chrome.empty()) {
    return !flags.svg.empty() || !flags.picture.empty();
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
  SL_RETURN_IF_ERROR(WriteLarge(kLargeFiles[0], flags.html, flags, steps, output,
                                [&pages] { return WritePage(pages); }));
  SL_RETURN_IF_ERROR(WriteLarge(kLargeFiles[1], flags.perfetto, flags, steps, output,
                                [&traced] { return WritePerfetto(traced); }));
  SL_RETURN_IF_ERROR(WriteLarge(kLargeFiles[2], flags.chrome, flags, steps, output,
                                [&traced] { return WriteChromeTrace(traced); }));
  return true;
}

}  // namespace stringline
