// page_writer FOLDER: the pages for browser_test.py, from the library's schedules.
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/write_file.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"
#include "tools/io/requests.h"
#include "tools/view/page/html.h"

namespace stringline {
namespace {

// A schedule of the library, simulated, with all inputs of a page.
struct Staged {
  Source source{"", ""};
  Plan plan;
  Timeline timeline;
  Analysis analysis;
  MemoryCurves memory;

  PageTimeline Page() const { return {&plan, &source, timeline, analysis, &memory, source.path()}; }
};

struct StagedSpec {
  std::string file;  // in the folder
  std::vector<std::string> parameters;
  std::string costs;
  CommLayout layout = CommLayout::kEdge;
};

std::unique_ptr<Staged> Stage(const StagedSpec& spec,
                              const std::string& folder = STRINGLINE_SOURCE_DIR "/schedules") {
  const auto parameters = ParseParameters(spec.parameters);
  const std::string path = absl::StrCat(folder, "/", spec.file);
  auto step = OpenSimulated({path, "", *parameters}, {.text = spec.costs}, {spec.layout});
  SL_CHECK(step.ok() && step->timeline) << spec.file;
  auto staged = std::make_unique<Staged>();
  staged->source = Source("schedules/" + spec.file, std::string(step->source.text()));
  staged->plan = *std::move(step->plan);
  staged->timeline = *std::move(step->timeline);
  staged->analysis = Analyze(staged->plan, staged->timeline);
  staged->memory = MemoryOver(staged->plan, staged->timeline, step->costs->memory);
  return staged;
}

// All ranks but the last copy what a microbatch holds to the host, and back for its backward.
constexpr const char* kOffloaded =
    "schedule offloaded(P, M) {\n"
    "  stages P on line;\n"
    "  rank r {\n"
    "    let first = min(P - r, M);\n"
    "    let copies = r < P - 1;\n"
    "    F r;\n"
    "    repeat first - 1 { F r; if copies { D r } }\n"
    "    repeat M - first { if copies { U r } B r; F r; if copies { D r } }\n"
    "    repeat first - 1 { if copies { U r } B r }\n"
    "    B r;\n"
    "  }\n"
    "}\n";

// Two towers of two stages meet in the fifth; the second microbatch leaves stage 3 out.
constexpr const char* kTowers =
    "schedule towers(P, M) {\n"
    "  stages P on line;\n"
    "  edges 0 -> 1, 2 -> 3, 1 -> 4, 3 -> 4, 4 -> 5;\n"
    "  skip s @ m where s == 3 and m == 1;\n"
    "  rank r { repeat M { F r } repeat M { B r } }\n"
    "}\n";

// Names and source lines as an enemy would choose them.
std::unique_ptr<Staged> Hostile() {
  const std::string text =
      "</script><img src=x onerror=\"document.title='broken'\">{{PROGRAM}}\xff\n<!-- <script>\n";
  auto staged = Stage({"1f1b.sched", {"P=2", "M=4"}, "F=10,B=20,p2p=2"});
  staged->timeline.schedule = text;
  for (Span& place : staged->plan.places) place = {0, 9};
  staged->source = Source(text, text);
  return staged;
}

// A timeline that no plan performs, as read from some file.
std::unique_ptr<Staged> Unwired() {
  auto staged = Stage({"1f1b.sched", {"P=2", "M=4"}, "F=10,B=20,p2p=2"});
  staged->timeline.origin = "measured";
  for (MessageEvents& message : staged->analysis.messages) message = {};
  staged->analysis.messages.clear();
  staged->analysis.critical.clear();
  return staged;
}

// A measured step: every computation began 2 us later than the plan's rules tell.
std::unique_ptr<Staged> Measured() {
  auto staged = Stage({"zb_h1.sched", {"P=4", "M=8"}, "F=18522,I=18086,W=9337,p2p=601"});
  Timeline& timeline = staged->timeline;
  timeline.origin = "measured";
  for (const Event& event : timeline.events) {
    const int64_t start_ns = IsMessage(event.kind) ? event.end_ns : event.start_ns + 2'000;
    timeline.observed.push_back({start_ns, event.end_ns});
  }
  return staged;
}

// Nothing happens, on `ranks` ranks.
std::unique_ptr<Staged> Nothing(int ranks) {
  auto staged = std::make_unique<Staged>();
  staged->timeline.origin = "measured";
  staged->timeline.schedule = "nothing";
  staged->timeline.first.assign(ranks + 1, 0);
  staged->analysis.causes.resize(ranks);
  staged->analysis.first_idle.assign(ranks + 1, 0);
  return staged;
}

PageTimeline PageWithoutPlan(const Staged& staged) {
  return {nullptr, nullptr, staged.timeline, staged.analysis, nullptr, ""};
}

void WriteOrDie(const std::string& path, absl::Span<const PageTimeline> pages) {
  const absl::Status written = WriteFileAtomically(path, WritePage(pages));
  SL_CHECK(written.ok()) << written;
}

int WritePages(const std::string& folder) {
  const std::string costs = "F=18522,I=18086,W=9337,B=27423,p2p=601";
  const auto write = [&](const char* name, const StagedSpec& spec) {
    WriteOrDie(absl::StrCat(folder, "/", name, ".html"), {Stage(spec)->Page()});
  };
  write("small", {"dualpipe_v.sched", {"P=4", "M=8"}, "F=10,I=10,W=10,FB=24,p2p=2"});
  write("zb", {"zb_h1.sched", {"P=4", "M=8"}, costs});
  write("pipes", {"chimera.sched", {"P=4", "M=8"}, "F=10,B=20,p2p=2"});
  write("parts",
        {"dualpipe_v.sched",
         {"P=4", "M=8"},
         "F=10,I=10,W=10,F.attn=4,F.dispatch=2,F.experts=5,F.combine=2,B.combine=2,B.experts=6,"
         "B.dispatch=2,B.attn=5,W.experts=4,W.attn=3,layers=2,p2p=2"});
  write("alone", {"1f1b.sched",
                  {"P=4", "M=6"},
                  "F.attn=4,F.dispatch=2,F.experts=5,F.combine=2,B.combine=2,B.experts=6,"
                  "B.dispatch=2,B.attn=5,W.experts=4,W.attn=3,F.post=2,B.post=2,layers=2,p2p=2"});
  write("sharded", {"interleaved.sched",
                    {"P=4", "M=8"},
                    "F=10,B=20,p2p=3,unshard=4,reduce=6",
                    CommLayout::kShared});
  write("stages", {"interleaved.sched", {"P=4", "M=8", "V=4"}, costs});
  write("slices", {"seq1f1b.sched", {"P=3", "M=3", "K=4"}, "F=8,B=16,p2p=1,attention=40%"});
  write("lent", {"bpipe.sched", {"P=6", "M=10"}, "F=10,B=20,EVICT=8,LOAD=8,p2p=2"});
  write("large", {"1f1b.sched", {"P=64", "M=512"}, costs});
  write("million", {"1f1b.sched", {"P=64", "M=2650"}, costs});
  const std::string towers = "towers.sched";
  SL_CHECK(WriteFileAtomically(absl::StrCat(folder, "/", towers), kTowers).ok()) << folder;
  const auto met = Stage({towers, {"P=6", "M=6"}, "F=10,B=20,p2p=2"}, folder);
  WriteOrDie(folder + "/towers.html", {met->Page()});
  const std::string file = "offloaded.sched";
  SL_CHECK(WriteFileAtomically(absl::StrCat(folder, "/", file), kOffloaded).ok()) << folder;
  const auto offloaded = Stage({file, {"P=4", "M=8"}, "F=10,B=20,D=12,U=12,p2p=2"}, folder);
  WriteOrDie(folder + "/offloaded.html", {offloaded->Page()});
  const auto crowded = Stage({file, {"P=2", "M=2000"}, "F=10,B=20,D=12,U=12,p2p=2"}, folder);
  WriteOrDie(folder + "/crowded.html", {crowded->Page()});
  const auto one = Stage({"1f1b.sched", {"P=4", "M=8"}, costs});
  const auto other = Stage({"zb_h1.sched", {"P=4", "M=8"}, costs});
  WriteOrDie(folder + "/two.html", {one->Page(), other->Page()});
  WriteOrDie(folder + "/hostile.html", {Hostile()->Page()});
  const auto unwired = Unwired();
  WriteOrDie(folder + "/unwired.html", {PageWithoutPlan(*unwired)});
  WriteOrDie(folder + "/measured.html", {Measured()->Page()});
  const auto nobody = Nothing(0), idle = Nothing(2);
  WriteOrDie(folder + "/nobody.html", {PageWithoutPlan(*nobody)});
  WriteOrDie(folder + "/idle.html", {PageWithoutPlan(*idle), PageWithoutPlan(*nobody)});
  return 0;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: page_writer FOLDER\n";
    return 2;
  }
  return stringline::WritePages(argv[1]);
}
