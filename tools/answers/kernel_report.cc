// Traces are read on all cores, each reduced to its part, and told rank by rank.
#include "tools/answers/kernel_report.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"
#include "schedlang/base/write_file.h"
#include "schedlang/kernels/idle_causes.h"
#include "schedlang/kernels/kernel_sequences.h"
#include "schedlang/kernels/kernel_times.h"
#include "schedlang/kernels/launches.h"
#include "schedlang/kernels/memory_use.h"
#include "schedlang/kernels/name_differences.h"
#include "schedlang/kernels/stragglers.h"
#include "schedlang/kernels/trace_counters.h"
#include "schedlang/kernels/write_counters.h"
#include "schedlang/torch/open_trace.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

absl::StatusOr<KernelTrace> OpenPart(const std::string& file, std::optional<int> step) {
  KernelTrace trace;
  SL_RETURN_IF_ERROR(ReadUnpacked(file, [&](std::istream& json) {
    SL_ASSIGN_OR_RETURN(trace, ReadKernelTrace(json, file));
    return absl::OkStatus();
  }));
  return PartOf(std::move(trace), step);
}

absl::StatusOr<std::vector<KernelTrace>> OpenParts(const std::vector<std::string>& paths,
                                                   std::optional<int> step,
                                                   const std::function<bool()>& watch) {
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> files, TraceFilesOf(paths));
  std::vector<absl::StatusOr<KernelTrace>> read(files.size(), absl::CancelledError("stopped"));
  ForEachOnThreads(static_cast<int>(files.size()), /*threads=*/0, [&](int i) {
    if (watch()) read[i] = OpenPart(files[i], step);
  });
  std::vector<KernelTrace> traces;
  for (absl::StatusOr<KernelTrace>& trace : read) {
    if (!trace.ok()) return trace.status();
    traces.push_back(*std::move(trace));
  }
  std::stable_sort(traces.begin(), traces.end(),
                   [](const KernelTrace& a, const KernelTrace& b) { return a.rank < b.rank; });
  return traces;
}

const char* KindName(DeviceWork work) {
  switch (work) {
    case DeviceWork::kComputation:
      return "computation";
    case DeviceWork::kCommunication:
      return "communication";
    case DeviceWork::kMemory:
      return "memory";
    case DeviceWork::kOther:
      break;
  }
  return "other";
}

// A name cut to `width` columns, at most.
std::string Cut(const std::string& name, size_t width) {
  return name.size() <= width ? name : absl::StrCat(name.substr(0, width - 3), "...");
}

std::string Rounded(double ns) { return PrintTime(static_cast<int64_t>(ns)); }

void PrintIdle(const KernelTrace& trace, std::ostream& out) {
  const std::vector<IdleCauses> causes = IdleCausesOf(trace);
  if (causes.empty()) {
    out << "  nothing ran on a GPU\n";
    return;
  }
  out << absl::StreamFormat("  %-10s %14s %14s %14s %14s\n", "idle", "host wait", "kernel wait",
                            "other", "all");
  for (const IdleCauses& of : causes) {
    out << absl::StreamFormat("  stream %-3d %14s %14s %14s %14s\n", of.stream,
                              PrintTime(of.host_ns), PrintTime(of.kernel_ns),
                              PrintTime(of.other_ns), PrintTime(of.all_ns()));
  }
}

void PrintKernels(const KernelTrace& trace, size_t most, std::ostream& out) {
  const std::vector<KernelTime> times = KernelTimesOf(trace);
  if (times.empty()) return;
  out << absl::StreamFormat("  %-48s %-13s %7s %13s %13s %13s %13s %13s\n", "kernel", "kind",
                            "times", "sum", "mean", "deviation", "least", "most");
  for (size_t i = 0; i < std::min(most, times.size()); ++i) {
    const KernelTime& time = times[i];
    out << absl::StreamFormat(
        "  %-48s %-13s %7d %13s %13s %13s %13s %13s\n", Cut(trace.names[time.name], 48),
        KindName(time.work), time.count, PrintTime(time.sum_ns), Rounded(time.mean_ns),
        Rounded(time.deviation_ns), PrintTime(time.least_ns), PrintTime(time.most_ns));
  }
  if (times.size() > most) out << "  and " << times.size() - most << " more\n";
}

void PrintDistribution(const std::string& name, const Distribution& of, const char* unit,
                       std::ostream& out) {
  const auto number = [&](double value) { return absl::StrFormat("%.6g%s", value, unit); };
  out << absl::StreamFormat("  %-20s %7d %13s %13s %13s %13s %13s %13s %13s\n", name, of.count,
                            number(of.mean), number(of.deviation), number(of.least),
                            number(of.lower), number(of.median), number(of.upper), number(of.most));
}

void PrintCurves(const KernelTrace& trace, std::ostream& out) {
  const LaunchFigures launches = FiguresOf(LaunchesOf(trace));
  out << absl::StreamFormat("  %-20s %7s %13s %13s %13s %13s %13s %13s %13s\n", "", "times", "mean",
                            "deviation", "least", "25 %", "50 %", "75 %", "most");
  PrintDistribution("launch", launches.host_us, " us", out);
  PrintDistribution("launched work", launches.device_us, " us", out);
  PrintDistribution("launch to start", launches.delay_us, " us", out);
  for (const TraceCurve& queue : QueueLengthsOf(trace)) {
    PrintDistribution("queue of " + queue.name, DistributionOfQueue(queue), "", out);
  }
  for (const TraceCurve& rate : CopyRatesOf(trace)) {
    PrintDistribution(rate.name, DistributionOfRate(rate), " GB/s", out);
  }
  out << "  launches: " << launches.short_work << " of work shorter than the call, "
      << launches.long_calls << " of more than 50 us, " << launches.long_delays
      << " more than 100 us before their work\n";
}

void PrintMemory(const KernelTrace& trace, std::ostream& out) {
  for (const TracedMemory& memory : TracedMemoryOf(trace)) {
    out << "  memory of " << memory.device_name() << ": at most "
        << PrintBytes(memory.most_allocated_bytes) << " allocated, "
        << PrintBytes(memory.most_reserved_bytes) << " reserved, " << memory.samples.size()
        << " samples\n";
  }
}

void PrintSequences(const KernelTrace& trace, const std::string& part, size_t most,
                    std::ostream& out) {
  const std::vector<KernelSequence> sequences = KernelSequencesOf(trace, part);
  out << "  sequences of " << part << ": " << sequences.size() << "\n";
  for (size_t i = 0; i < std::min(most, sequences.size()); ++i) {
    const KernelSequence& of = sequences[i];
    out << absl::StreamFormat("  %7d times, GPU %s, host %s: %s\n", of.count,
                              PrintTime(of.device_ns), PrintTime(of.host_ns),
                              Cut(trace.names[of.call], 48));
    for (const uint32_t kernel : of.kernels) out << "            " << trace.names[kernel] << "\n";
  }
}

void PrintStragglers(const std::vector<KernelTrace>& traces, std::ostream& out) {
  const Stragglers found = StragglersOf(traces);
  if (found.kernel.empty()) return;
  out << "stragglers, by the last " << Cut(found.kernel, 60) << " on stream " << found.stream
      << " of " << found.steps << (found.steps == 1 ? " step\n" : " steps\n");
  for (const RankStart& of : found.ranks) {
    out << absl::StreamFormat("  rank %-3d late %d of %d, begins it after %.4f steps\n", of.rank,
                              of.late, found.steps, of.start_share);
  }
}

void PrintDifferences(const KernelReport& report, size_t most, std::ostream& out) {
  const auto differences = NameDifferencesOf(report.traces, report.against);
  out << absl::StreamFormat("%-50s %4s %15s %28s %14s\n", "difference", "", "times",
                            "first, second", "second - first");
  for (size_t i = 0; i < std::min(most, differences.size()); ++i) {
    const NameDifference& of = differences[i];
    out << absl::StreamFormat("%-50s %4s %7d %7d %13s %14s %14s\n", Cut(of.name, 50),
                              of.on_device ? "GPU" : "host", of.counts[0], of.counts[1],
                              PrintTime(of.times_ns[0]), PrintTime(of.times_ns[1]),
                              PrintTime(of.times_ns[1] - of.times_ns[0]));
  }
  if (differences.size() > most) out << "and " << differences.size() - most << " more\n";
}

Json DistributionAsJson(const Distribution& of) {
  return {{"count", of.count}, {"mean", of.mean},   {"deviation", of.deviation},
          {"least", of.least}, {"lower", of.lower}, {"median", of.median},
          {"upper", of.upper}, {"most", of.most}};
}

// Samples as two columns.
Json CurveAsJson(const KernelTrace& trace, const TraceCurve& curve, const char* values) {
  Json at = Json::array(), column = Json::array();
  for (const CurveSample& sample : curve.samples) {
    at.push_back(Microseconds(sample.at_ns - FirstNs(trace)));
    column.push_back(sample.value);
  }
  return {{"at_us", std::move(at)}, {values, std::move(column)}};
}

Json QueuesAsJson(const KernelTrace& trace) {
  Json queues = Json::array();
  for (const TraceCurve& queue : QueueLengthsOf(trace)) {
    Json json = {{"stream", queue.stream},
                 {"distribution", DistributionAsJson(DistributionOfQueue(queue))}};
    json.update(CurveAsJson(trace, queue, "length"));
    queues.push_back(std::move(json));
  }
  return queues;
}

Json CopiesAsJson(const KernelTrace& trace) {
  Json copies = Json::array();
  for (const TraceCurve& rate : CopyRatesOf(trace)) {
    Json json = {{"kind", rate.name},
                 {"distribution", DistributionAsJson(DistributionOfRate(rate))}};
    json.update(CurveAsJson(trace, rate, "gb_per_second"));
    copies.push_back(std::move(json));
  }
  return copies;
}

Json LaunchesAsJson(const KernelTrace& trace) {
  const std::vector<KernelLaunch> launches = LaunchesOf(trace);
  const LaunchFigures figures = FiguresOf(launches);
  Json json = {{"short_work", figures.short_work},   {"long_calls", figures.long_calls},
               {"long_delays", figures.long_delays}, {"correlation", Json::array()},
               {"host_us", Json::array()},           {"gpu_us", Json::array()},
               {"delay_us", Json::array()}};
  for (const KernelLaunch& launch : launches) {
    json["correlation"].push_back(launch.correlation);
    json["host_us"].push_back(Microseconds(launch.host_ns));
    json["gpu_us"].push_back(Microseconds(launch.device_ns));
    json["delay_us"].push_back(Microseconds(launch.delay_ns));
  }
  return json;
}

Json MemoryAsJson(const KernelTrace& trace) {
  Json memory = Json::array();
  for (const TracedMemory& of : TracedMemoryOf(trace)) {
    Json json = {{"device", of.device_name()},
                 {"most_allocated", of.most_allocated_bytes},
                 {"most_reserved", of.most_reserved_bytes},
                 {"at_us", Json::array()},
                 {"allocated", Json::array()},
                 {"reserved", Json::array()}};
    for (const MemorySample& sample : of.samples) {
      json["at_us"].push_back(Microseconds(sample.at_ns - FirstNs(trace)));
      json["allocated"].push_back(sample.allocated_bytes);
      json["reserved"].push_back(sample.reserved_bytes);
    }
    memory.push_back(std::move(json));
  }
  return memory;
}

Json SequencesAsJson(const KernelTrace& trace, const std::string& part) {
  Json sequences = Json::array();
  for (const KernelSequence& of : KernelSequencesOf(trace, part)) {
    Json kernels = Json::array();
    for (const uint32_t kernel : of.kernels) kernels.push_back(trace.names[kernel]);
    sequences.push_back({{"operator", trace.names[of.call]},
                         {"kernels", std::move(kernels)},
                         {"count", of.count},
                         {"gpu_us", Microseconds(of.device_ns)},
                         {"host_us", Microseconds(of.host_ns)}});
  }
  return sequences;
}

Json RankAsJson(const KernelTrace& trace, const std::string& operator_part) {
  Json streams = Json::array(), kernels = Json::array();
  for (const IdleCauses& of : IdleCausesOf(trace)) {
    streams.push_back({{"stream", of.stream},
                       {"host_wait_us", Microseconds(of.host_ns)},
                       {"kernel_wait_us", Microseconds(of.kernel_ns)},
                       {"other_us", Microseconds(of.other_ns)}});
  }
  for (const KernelTime& time : KernelTimesOf(trace)) {
    kernels.push_back({{"name", trace.names[time.name]},
                       {"kind", KindName(time.work)},
                       {"count", time.count},
                       {"sum_us", Microseconds(time.sum_ns)},
                       {"mean_us", time.mean_ns / 1000},
                       {"deviation_us", time.deviation_ns / 1000},
                       {"least_us", Microseconds(time.least_ns)},
                       {"most_us", Microseconds(time.most_ns)}});
  }
  Json json = {{"rank", trace.rank},
               {"trace", trace.file},
               {"streams", std::move(streams)},
               {"kernels", std::move(kernels)},
               {"launches", LaunchesAsJson(trace)},
               {"queues", QueuesAsJson(trace)},
               {"copies", CopiesAsJson(trace)},
               {"memory", MemoryAsJson(trace)}};
  if (!operator_part.empty()) json["sequences"] = SequencesAsJson(trace, operator_part);
  return json;
}

Json StragglersAsJson(const std::vector<KernelTrace>& traces) {
  const Stragglers found = StragglersOf(traces);
  if (found.kernel.empty()) return nullptr;
  Json ranks = Json::array();
  for (const RankStart& of : found.ranks) {
    ranks.push_back({{"rank", of.rank}, {"late", of.late}, {"start_steps", of.start_share}});
  }
  return {{"kernel", found.kernel},
          {"stream", found.stream},
          {"steps", found.steps},
          {"ranks", std::move(ranks)}};
}

absl::StatusOr<std::string> Gzipped(const std::string& text) {
  z_stream stream{};
  const int window = 15 + 16;  // with gzip's head
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return absl::ResourceExhaustedError("no memory to pack a trace");
  }
  std::string packed(deflateBound(&stream, text.size()), '\0');
  // zlib counts in 32 bits, so input and room are handed over piece by piece.
  constexpr size_t kPiece = size_t{1} << 30;
  size_t taken = 0, made = 0;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    const size_t input = std::min(kPiece, text.size() - taken);
    const size_t room = std::min(kPiece, packed.size() - made);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + taken));
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(packed.data() + made);
    stream.avail_out = static_cast<uInt>(room);
    state = deflate(&stream, taken + input == text.size() ? Z_FINISH : Z_NO_FLUSH);
    taken += input - stream.avail_in;
    made += room - stream.avail_out;
    if (state != Z_OK && state != Z_STREAM_END) {
      deflateEnd(&stream);
      return absl::InternalError("a trace could not be packed");
    }
  }
  deflateEnd(&stream);
  packed.resize(made);
  return packed;
}

}  // namespace

absl::StatusOr<KernelReport> MakeKernelReport(const KernelQuestion& question,
                                              const std::function<bool()>& watch) {
  KernelReport report{.operator_part = question.operator_part};
  SL_ASSIGN_OR_RETURN(report.traces, OpenParts(question.paths, question.step, watch));
  if (question.against.empty()) return report;
  SL_ASSIGN_OR_RETURN(report.against, OpenParts(question.against, question.step, watch));
  return report;
}

void PrintKernelReport(const KernelReport& report, size_t most, std::ostream& out) {
  for (const KernelTrace& trace : report.traces) {
    out << "rank " << trace.rank << ", " << trace.file << "\n";
    PrintIdle(trace, out);
    PrintKernels(trace, most, out);
    PrintCurves(trace, out);
    PrintMemory(trace, out);
    if (!report.operator_part.empty()) PrintSequences(trace, report.operator_part, most, out);
    out << "\n";
  }
  const std::vector<KindTime> kinds = KindTimesOf(report.traces);
  if (!kinds.empty()) out << "what ran at once, on all ranks\n";
  for (const KindTime& kind : kinds) {
    out << absl::StreamFormat("  %-38s %14s %9s\n", kind.name(), PrintTime(kind.time_ns),
                              PrintShare(kind.share));
  }
  PrintStragglers(report.traces, out);
  if (!report.against.empty()) PrintDifferences(report, most, out);
}

Json KernelReportAsJson(const KernelReport& report) {
  Json ranks = Json::array(), kinds = Json::array();
  for (const KernelTrace& trace : report.traces) {
    ranks.push_back(RankAsJson(trace, report.operator_part));
  }
  for (const KindTime& kind : KindTimesOf(report.traces)) {
    kinds.push_back(
        {{"kinds", kind.name()}, {"time_us", Microseconds(kind.time_ns)}, {"share", kind.share}});
  }
  Json json = {{"ok", true},
               {"ranks", std::move(ranks)},
               {"kinds", std::move(kinds)},
               {"stragglers", StragglersAsJson(report.traces)}};
  if (report.against.empty()) return json;
  json["differences"] = Json::array();
  for (const NameDifference& of : NameDifferencesOf(report.traces, report.against)) {
    json["differences"].push_back({{"name", of.name},
                                   {"on_gpu", of.on_device},
                                   {"first_count", of.counts[0]},
                                   {"second_count", of.counts[1]},
                                   {"first_us", Microseconds(of.times_ns[0])},
                                   {"second_us", Microseconds(of.times_ns[1])}});
  }
  return json;
}

absl::Status WriteTracesWithCounters(const KernelReport& report, const std::string& folder) {
  namespace fs = std::filesystem;
  std::set<std::string> names;
  for (const KernelTrace& trace : report.traces) {
    const std::string name = fs::path(trace.file).filename().string();
    const std::string path = (fs::path(folder) / name).string();
    std::error_code error;
    if (fs::equivalent(path, trace.file, error)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is the trace itself; name another folder for counters"));
    }
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(trace.file, ": another trace has this name, too, and both would be ", path));
    }
  }
  for (const KernelTrace& trace : report.traces) {
    std::string text;
    SL_RETURN_IF_ERROR(ReadUnpacked(trace.file, [&](std::istream& json) {
      SL_ASSIGN_OR_RETURN(text, WithCounters(json, trace));
      return absl::OkStatus();
    }));
    if (absl::EndsWith(trace.file, ".gz")) {
      SL_ASSIGN_OR_RETURN(text, Gzipped(text));
    }
    SL_RETURN_IF_ERROR(
        WriteFileAtomically((fs::path(folder) / fs::path(trace.file).filename()).string(), text));
  }
  return absl::OkStatus();
}

bool IsMemoryTimeline(const std::string& path) {
  const std::string name = "." + std::filesystem::path(path).filename().string();
  return absl::EndsWith(name, ".raw.json") || absl::EndsWith(name, ".raw.json.gz");
}

absl::StatusOr<MemoryTimelineText> ReportMemoryTimeline(const std::string& path) {
  std::vector<CategorySample> samples;
  SL_RETURN_IF_ERROR(ReadUnpacked(path, [&](std::istream& text) {
    SL_ASSIGN_OR_RETURN(samples, ReadMemoryTimeline(text, path));
    return absl::OkStatus();
  }));
  MemoryTimelineText told{
      .json = {{"ok", true}, {"at_us", Json::array()}, {"bytes", Json::object()}}};
  size_t largest = 0;
  int64_t most_bytes = -1;
  for (const char* const category : kMemoryCategories) {
    told.json["bytes"][category] = Json::array();
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    told.json["at_us"].push_back(Microseconds(samples[i].at_ns - samples[0].at_ns));
    int64_t all_bytes = 0;
    for (size_t c = 0; c < kMemoryCategories.size(); ++c) {
      told.json["bytes"][kMemoryCategories[c]].push_back(samples[i].bytes[c]);
      all_bytes += samples[i].bytes[c];
    }
    if (all_bytes <= most_bytes) continue;
    most_bytes = all_bytes;
    largest = i;
  }
  told.json["most_bytes"] = std::max<int64_t>(most_bytes, 0);
  if (samples.empty()) {
    told.text = absl::StrCat(path, ": nothing was allocated\n");
    return told;
  }
  absl::StrAppend(&told.text, path, ": at most ", PrintBytes(most_bytes), ", ",
                  PrintTime(samples[largest].at_ns - samples[0].at_ns), " after the first\n");
  for (size_t c = 0; c < kMemoryCategories.size(); ++c) {
    absl::StrAppendFormat(&told.text, "  %-16s %14s\n", kMemoryCategories[c],
                          PrintBytes(samples[largest].bytes[c]));
  }
  return told;
}

}  // namespace stringline
