// Work of GPUs in traces of torch's profiler, with the figures of Holistic Trace Analysis: the
// answer of `report` for traces.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/kernels/kernel_trace.h"
#include "tools/io/json.h"

namespace stringline {

struct KernelQuestion {
  std::vector<std::string> paths;  // files, one a rank, or folders of them
  std::optional<int> step;         // by default all but the last (schedlang/kernels/kernel_trace.h)
  std::string operator_part;       // sequences of kernels of these operators; "": none
  std::vector<std::string> against;  // other traces: differences by name
};

struct KernelReport {
  std::vector<KernelTrace> traces;  // this and `against` by rank: the part that counts
  std::vector<KernelTrace> against;
  std::string operator_part;
};

// `watch` is called before each trace, from any thread; false ends with Cancelled. Errors: those of
// TraceFilesOf, ReadKernelTrace and PartOf, for the first file with an error.
absl::StatusOr<KernelReport> MakeKernelReport(
    const KernelQuestion& question, const std::function<bool()>& watch = [] { return true; });

// `most`: so many rows of each table of names.
void PrintKernelReport(const KernelReport& report, size_t most, std::ostream& out);
Json KernelReportAsJson(const KernelReport& report);

// Writes every trace again with counters (schedlang/kernels/write_counters.h), into `folder` under
// its own name, gzipped if that ends in .gz. Errors: a trace that would be replaced, two of one
// name, and those of WriteFileAtomically.
absl::Status WriteTracesWithCounters(const KernelReport& report, const std::string& folder);

// True for the name of a memory timeline: raw.json.gz, or one that ends in .raw.json.gz; or either
// without .gz.
bool IsMemoryTimeline(const std::string& path);
// The timeline of such a file, by category: as a table of its largest moments, and as columns.
struct MemoryTimelineText {
  std::string text;
  Json json;
};
absl::StatusOr<MemoryTimelineText> ReportMemoryTimeline(const std::string& path);

}  // namespace stringline
