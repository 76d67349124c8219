// Every curve becomes a path of columns: the least and the greatest value in each.
#include "tools/view/kernel_page.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/bytes.h"
#include "schedlang/kernels/kernel_times.h"
#include "schedlang/kernels/memory_use.h"
#include "schedlang/kernels/trace_counters.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr int kTrackColumns = 1200, kTrackHeight = 48;

constexpr char kPageHead[] = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>what GPUs did</title><style>
body { font: 14px system-ui, sans-serif; margin: 24px; max-width: 1240px }
svg { display: block; width: 100%; height: 48px; background: #f4f4f4 }
path { fill: #3465a4; stroke: #3465a4; stroke-width: 1 }
p { margin: 10px 0 2px } table { border-collapse: collapse; margin-top: 12px }
td, th { padding: 2px 10px; text-align: right } td:first-child, th:first-child { text-align: left }
td:first-child { max-width: 560px; overflow-wrap: anywhere }
tr:nth-child(even) { background: #f4f4f4 }
</style></head><body>
)";

int64_t LastNs(const KernelTrace& trace) {
  int64_t last_ns = FirstNs(trace);
  for (const HostCall& call : trace.calls) last_ns = std::max(last_ns, call.end_ns);
  for (const DeviceRun& run : trace.runs) last_ns = std::max(last_ns, run.end_ns);
  if (!trace.samples.empty()) last_ns = std::max(last_ns, trace.samples.back().at_ns);
  return last_ns;
}

// A track: its title with the greatest value, and the path.
std::string TrackOf(const std::string& title, const std::string& most_text,
                    const std::vector<CurveSample>& samples, int64_t first_ns, int64_t length_ns) {
  double most = 0;
  for (const CurveSample& sample : samples) most = std::max(most, sample.value);
  std::vector<std::optional<std::pair<double, double>>> columns(kTrackColumns);
  const auto widen = [&](size_t column, double value) {
    auto& of = columns[column];
    of = of ? std::pair(std::min(of->first, value), std::max(of->second, value))
            : std::pair(value, value);
  };
  const auto column_of = [&](int64_t at_ns) {
    const double share = static_cast<double>(at_ns - first_ns) / static_cast<double>(length_ns);
    return static_cast<size_t>(std::clamp(share * kTrackColumns, 0.0, kTrackColumns - 1.0));
  };
  for (size_t i = 0; i < samples.size(); ++i) {
    const size_t end = i + 1 < samples.size() ? column_of(samples[i + 1].at_ns) : kTrackColumns - 1;
    for (size_t c = column_of(samples[i].at_ns); c <= end; ++c) widen(c, samples[i].value);
  }
  std::string path;
  const auto height = [&](double value) {
    return most > 0 ? kTrackHeight - value / most * (kTrackHeight - 4) : kTrackHeight;
  };
  for (size_t c = 0; c < columns.size(); ++c) {
    if (!columns[c]) continue;
    absl::StrAppendFormat(&path, "M%d %.1fV%.1f", c, height(columns[c]->first) + 0.5,
                          height(columns[c]->second));
  }
  return absl::StrCat("<p>", EscapeMarkup(title), ": at most ", most_text,
                      "</p>\n<svg viewBox=\"0 0 ", kTrackColumns, " ", kTrackHeight,
                      "\" preserveAspectRatio=\"none\"><path d=\"", path, "\"/></svg>\n");
}

std::string MostText(const TraceCurve& curve, const char* unit) {
  double most = 0;
  for (const CurveSample& sample : curve.samples) most = std::max(most, sample.value);
  return absl::StrFormat("%.6g%s", most, unit);
}

std::string TracksOf(const KernelTrace& trace, int64_t length_ns) {
  const int64_t first_ns = FirstNs(trace);
  std::string tracks;
  for (const TraceCurve& queue : QueueLengthsOf(trace)) {
    tracks += TrackOf("launched and not started, " + queue.name, MostText(queue, ""), queue.samples,
                      first_ns, length_ns);
  }
  for (const TraceCurve& rate : CopyRatesOf(trace)) {
    tracks += TrackOf(rate.name, MostText(rate, " GB/s"), rate.samples, first_ns, length_ns);
  }
  for (const TracedMemory& memory : TracedMemoryOf(trace)) {
    std::vector<CurveSample> samples;
    for (const MemorySample& sample : memory.samples) {
      samples.push_back({sample.at_ns, static_cast<double>(sample.allocated_bytes)});
    }
    tracks += TrackOf("memory allocated on " + memory.device_name(),
                      PrintBytes(memory.most_allocated_bytes), samples, first_ns, length_ns);
  }
  return tracks;
}

std::string KernelTable(const KernelTrace& trace) {
  const std::vector<KernelTime> times = KernelTimesOf(trace);
  if (times.empty()) return "<p>Nothing ran on a GPU.</p>\n";
  std::string table =
      "<table><tr><th>kernel</th><th>times</th><th>sum</th><th>mean</th><th>least</th>"
      "<th>most</th></tr>\n";
  for (const KernelTime& time : times) {
    absl::StrAppend(&table, "<tr><td>", EscapeMarkup(trace.names[time.name]), "</td><td>",
                    time.count, "</td><td>", PrintTime(time.sum_ns), "</td><td>",
                    PrintTime(static_cast<int64_t>(time.mean_ns)), "</td><td>",
                    PrintTime(time.least_ns), "</td><td>", PrintTime(time.most_ns), "</td></tr>\n");
  }
  return table + "</table>\n";
}

}  // namespace

std::string KernelPage(const std::vector<KernelTrace>& traces) {
  int64_t length_ns = 1;
  for (const KernelTrace& trace : traces) {
    length_ns = std::max(length_ns, LastNs(trace) - FirstNs(trace));
  }
  std::string page = absl::StrCat(kPageHead, "<h1>What GPUs did</h1>\n<p>Tracks are ",
                                  PrintTime(length_ns), " wide.</p>\n");
  for (const KernelTrace& trace : traces) {
    absl::StrAppend(&page, "<h2>rank ", trace.rank, "</h2>\n<p>", EscapeMarkup(trace.file),
                    "</p>\n", TracksOf(trace, length_ns), KernelTable(trace));
  }
  return page + "</body></html>\n";
}

}  // namespace stringline
