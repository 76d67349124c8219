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

absl::Status WritePictures(const PictureQuestion& asked, const ShownPart& part,
                           const std::vector<Session>& steps, const Output& output) {
  if (asked.svg.empty() && asked.picture.empty()) return absl::OkStatus();
  std::vector<const Timeline*> timelines;
  for (const Session& step : steps) timelines.push_back(&*step.timeline);
  SvgStyle style;
  if (asked.width > 0) style.width = asked.width;
  style.lanes = asked.lanes;
  style.fold = asked.fold;
  style.title = !asked.no_title;
  style.grey = asked.palette == "grey";
  style.part = part;
  PictureFormat format = PictureFormat::kSvg;
  if (!asked.picture.empty()) {
    SL_ASSIGN_OR_RETURN(format, PictureFormatOf(asked.picture));
  }
  const std::string svg = DrawSvg(timelines, style);
  if (!asked.svg.empty()) SL_RETURN_IF_ERROR(WriteAsked(output, asked.svg, svg));
  if (asked.picture.empty()) return absl::OkStatus();
  SL_ASSIGN_OR_RETURN(const std::string picture, Rendered(svg, format));
  return WriteAsked(output, asked.picture, picture);
}

// Writes the text of `make`, if the option is given and the text is not too large.
template <typename Make>
absl::Status WriteLarge(const LargeFile& file, const std::string& path,
                        const PictureQuestion& asked, const std::vector<Session>& steps,
                        const Output& output, Make make) {
  if (path.empty()) return absl::OkStatus();
  const Progress progress(output, absl::StrCat("writing ", path));
  const auto refusal = [&](const char* about, size_t bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("`", file.field, "=", path, "`: it would have ", about, bytes / 1'000'000,
                     " MB; `force` writes it all the same, smaller P and M make it smaller"));
  };
  size_t least = 0;
  for (const Session& step : steps) {
    least += step.timeline->events.size() * file.least_bytes_per_event;
  }
  if (least > kManyBytes && !asked.force) return refusal("at least ", least);
  const std::string text = make();
  if (text.size() > kManyBytes && !asked.force) return refusal("", text.size());
  return WriteAsked(output, path, text);
}

}  // namespace

absl::StatusOr<ShownPart> ShownPartOf(const PictureQuestion& asked,
                                      const std::vector<Session>& steps) {
  SL_ASSIGN_OR_RETURN(const ShownPart part,
                      ParseShownPart(asked.ranks, asked.time, asked.microbatches));
  for (const Session& step : steps) SL_RETURN_IF_ERROR(CheckShownPart(part, *step.timeline));
  return part;
}

absl::StatusOr<bool> WriteExports(const PictureQuestion& asked, const ShownPart& part,
                                  const std::vector<Session>& steps, const Output& output) {
  SL_RETURN_IF_ERROR(WritePictures(asked, part, steps, output));
  if (asked.html.empty() && asked.perfetto.empty() && asked.chrome.empty()) {
    return !asked.svg.empty() || !asked.picture.empty();
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
  SL_RETURN_IF_ERROR(WriteLarge(kLargeFiles[0], asked.html, asked, steps, output,
                                [&pages] { return WritePage(pages); }));
  SL_RETURN_IF_ERROR(WriteLarge(kLargeFiles[1], asked.perfetto, asked, steps, output,
                                [&traced] { return WritePerfetto(traced); }));
  SL_RETURN_IF_ERROR(WriteLarge(kLargeFiles[2], asked.chrome, asked, steps, output,
                                [&traced] { return WriteChromeTrace(traced); }));
  return true;
}

}  // namespace stringline
