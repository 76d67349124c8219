#include "tools/answers/trace_import.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"
#include "schedlang/torch/open_trace.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

bool SeenFromOneSide(const ImportedStep& imported) {
  return std::any_of(imported.ranks.begin(), imported.ranks.end(),
                     [](const ImportedRank& rank) { return !rank.clock.uncertainty_ns; });
}

// The alignment of the ranks' clocks, in words.
std::string PrintClocks(const ImportedStep& imported) {
  if (imported.ranks.size() == 1) return "";
  std::string text = imported.hosts == 1 && imported.clocks_off_ns == 0
                         ? "clocks: one host, so one clock; no message says otherwise"
                         : absl::StrCat("clocks: aligned to that of rank ", imported.ranks[0].rank,
                                        " by messages, which all arrive after they have left");
  if (SeenFromOneSide(imported)) {
    absl::StrAppend(&text, "; where they go one way only (no ±) by as little as that takes");
  }
  if (imported.clocks_off_ns > 0) {
    absl::StrAppend(&text, "; some arrive up to ", PrintTime(imported.clocks_off_ns),
                    " before, whatever the offsets: the clocks drift");
  }
  return text + "\n";
}

std::string PrintClock(const RankClock& clock) {
  std::string text = PrintTime(std::abs(clock.offset_ns));
  if (clock.offset_ns != 0) text = absl::StrCat(clock.offset_ns < 0 ? "-" : "+", text);
  if (clock.uncertainty_ns.value_or(0) > 0) {
    absl::StrAppend(&text, " ± ", PrintTime(*clock.uncertainty_ns));
  }
  return text;
}

}  // namespace

bool IsTrace(const std::string& path) {
  std::error_code error;
  return IsTraceName(path) || fs::is_directory(path, error);
}

absl::StatusOr<ImportedStep> ImportTraces(const std::vector<std::string>& paths,
                                          std::optional<int> step,
                                          const std::function<bool()>& watch) {
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> files, TraceFilesOf(paths));
  std::vector<absl::StatusOr<RankTrace>> read(files.size(), absl::CancelledError("stopped"));
  std::atomic<size_t> next = 0;
  const auto threads = std::min<size_t>(files.size(), std::thread::hardware_concurrency());
  WorkOnThreads(std::max(1, static_cast<int>(threads)), [&] {
    for (size_t i = next++; i < files.size() && watch(); i = next++) {
      read[i] = OpenRankTrace(files[i]);
    }
  });
  std::vector<RankTrace> traces;
  for (absl::StatusOr<RankTrace>& trace : read) {
    if (!trace.ok()) return trace.status();
    traces.push_back(*std::move(trace));
  }
  return ImportStep(std::move(traces), step);
}

void PrintImport(const ImportedStep& imported, std::ostream& out) {
  const Bubbles bubbles = MeasureBubbles(imported.timeline);
  out << TitleOf(imported.timeline) << ", step " << imported.step << " (whole are "
      << absl::StrJoin(imported.steps, ", ") << "): " << ComputeEvents(imported.timeline)
      << " actions, " << PrintTime(bubbles.makespan_ns) << ", " << PrintBubble(bubbles) << "\n"
      << PrintClocks(imported) << "\n";
  out << absl::StreamFormat("  rank %13s %13s %13s %13s %13s %9s  %s\n", "compute", "non-compute",
                            "idle", "total", "communication", "overlap", "clock, trace");
  for (const ImportedRank& rank : imported.ranks) {
    const BusyTimes& busy = rank.busy;
    out << absl::StreamFormat("  %4d %13s %13s %13s %13s %13s %9s  %s, %s\n", rank.rank,
                              PrintTime(busy.computation_ns), PrintTime(busy.other_ns),
                              PrintTime(busy.idle_ns), PrintTime(busy.total_ns),
                              PrintTime(busy.communication_ns), PrintShare(busy.overlap()),
                              PrintClock(rank.clock), rank.file);
  }
  const bool on_device = imported.ranks[0].on_device;
  out << "\n  "
      << (on_device ? "of what GPUs did" : "of computations on the host, and gloo's calls")
      << ", as Holistic Trace Analysis counts; overlap: share of communication\n";
}

Json ImportAsJson(const ImportedStep& imported) {
  Json ranks = Json::array();
  for (const ImportedRank& rank : imported.ranks) {
    const auto uncertainty_ns = rank.clock.uncertainty_ns;
    ranks.push_back(
        {{"rank", rank.rank},
         {"trace", rank.file},
         {"on_gpu", rank.on_device},
         {"compute_us", Microseconds(rank.busy.computation_ns)},
         {"non_compute_us", Microseconds(rank.busy.other_ns)},
         {"idle_us", Microseconds(rank.busy.idle_ns)},
         {"total_us", Microseconds(rank.busy.total_ns)},
         {"communication_us", Microseconds(rank.busy.communication_ns)},
         {"overlap_us", Microseconds(rank.busy.overlap_ns)},
         {"overlap", rank.busy.overlap()},
         {"clock_us", Microseconds(rank.clock.offset_ns)},
         {"clock_uncertainty_us", uncertainty_ns ? Microseconds(*uncertainty_ns) : Json(nullptr)}});
  }
  const Bubbles bubbles = MeasureBubbles(imported.timeline);
  return {{"ok", true},
          {"schedule", imported.timeline.schedule},
          {"parameters", ParametersAsJson(imported.timeline.parameters)},
          {"step", imported.step},
          {"steps", imported.steps},
          {"makespan_us", Microseconds(bubbles.makespan_ns)},
          {"bubble", bubbles.rate},
          {"hosts", imported.hosts},
          {"clocks_off_us", Microseconds(imported.clocks_off_ns)},
          {"ranks", std::move(ranks)}};
}

}  // namespace stringline
