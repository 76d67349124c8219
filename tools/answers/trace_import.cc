#include "tools/answers/trace_import.h"

#include <algorithm>
#include <filesystem>
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

// "+3.2 ms ± 40 us"; "+3.2 ms or more" where messages bound the offset on one side only.
std::string PrintClock(const RankClock& clock) {
  std::string text = PrintTime(std::abs(clock.offset_ns));
  if (clock.offset_ns != 0) text = absl::StrCat(clock.offset_ns < 0 ? "-" : "+", text);
  if (!clock.uncertainty_ns) return clock.offset_ns == 0 ? "unknown" : text + " or more";
  if (*clock.uncertainty_ns > 0) absl::StrAppend(&text, " ± ", PrintTime(*clock.uncertainty_ns));
  return text;
}

bool AreAlike(const RankClock& a, const RankClock& b) {
  return a.offset_ns == b.offset_ns && a.uncertainty_ns == b.uncertainty_ns;
}

// The moved clocks, "rank 1 by +3.2 ms ± 40 us", those of successive ranks at once.
std::vector<std::string> MovedClocks(const std::vector<ImportedRank>& ranks) {
  std::vector<std::string> moved;
  for (size_t r = 1, end = 1; r < ranks.size(); r = end) {
    for (end = r + 1; end < ranks.size(); ++end) {
      if (!AreAlike(ranks[end].clock, ranks[r].clock)) break;
    }
    if (ranks[r].clock.offset_ns == 0) continue;
    moved.push_back(absl::StrCat(end == r + 1 ? "rank " : "ranks ", ranks[r].rank,
                                 end == r + 1 ? "" : absl::StrCat(" to ", ranks[end - 1].rank),
                                 " by ", PrintClock(ranks[r].clock)));
  }
  return moved;
}

}  // namespace

std::string PrintClocks(const ImportedStep& imported) {
  constexpr size_t kMostNamed = 8;
  const std::vector<ImportedRank>& ranks = imported.ranks;
  std::vector<std::string> moved = MovedClocks(ranks);
  const size_t parts = moved.size();
  if (parts > kMostNamed) {
    moved.resize(kMostNamed - 1);
    moved.push_back(absl::StrCat(parts - moved.size(), " more, below"));
  }
  std::string text;
  if (parts > 0) {
    text = absl::StrCat("clocks moved to that of rank ", ranks[0].rank, ": ",
                        absl::StrJoin(moved, ", "), "\n");
  }
  const auto has = [&](const auto& of) { return std::any_of(ranks.begin(), ranks.end(), of); };
  if (has([](const ImportedRank& rank) { return rank.clock.uncertainty_ns.value_or(0) > 0; })) {
    absl::StrAppend(&text,
                    "  ±: the most by which that is wrong; messages arrive after they have left, "
                    "both ways\n");
  }
  const auto unknown = std::count_if(ranks.begin(), ranks.end(), [](const ImportedRank& rank) {
    return !rank.clock.uncertainty_ns.has_value();
  });
  if (unknown > 0) {
    absl::StrAppend(&text, "  ", unknown == 1 ? "one clock" : absl::StrCat(unknown, " clocks"),
                    " may be off by any more: messages between hosts go one way only, and nothing "
                    "says how long they took\n");
  }
  if (imported.clocks_off_ns > 0) {
    absl::StrAppend(&text, "  whatever is moved, some messages arrive up to ",
                    PrintTime(imported.clocks_off_ns), " before they left: clocks drift\n");
  }
  return text;
}

bool IsTrace(const std::string& path) {
  std::error_code error;
  return IsTraceName(path) || fs::is_directory(path, error);
}

absl::StatusOr<ImportedStep> ImportTraces(const std::vector<std::string>& paths,
                                          std::optional<int> step,
                                          const std::function<bool()>& watch) {
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> files, TraceFilesOf(paths));
  std::vector<absl::StatusOr<RankTrace>> read(files.size(), absl::CancelledError("stopped"));
  ForEachOnThreads(static_cast<int>(files.size()), /*threads=*/0, [&](int i) {
    if (watch()) read[i] = OpenRankTrace(files[i]);
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
