// Each part of a report is a function that prints it, and one that adds it to the JSON.
#include "tools/answers/step_report.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/bytes.h"
#include "tools/answers/balance_line.h"
#include "tools/answers/bubble_table.h"
#include "tools/answers/collective_table.h"
#include "tools/answers/memory_table.h"
#include "tools/answers/network_table.h"
#include "tools/answers/ready_lines.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

constexpr int kPercentiles[] = {5, 50, 95, 99};

int64_t PercentileOf(const std::vector<int64_t>& sorted, int percentile) {
  return sorted[(sorted.size() - 1) * static_cast<size_t>(percentile) / 100];
}

double Change(int64_t ns, int64_t from_ns) {
  return from_ns == 0 ? 0 : static_cast<double>(ns - from_ns) / static_cast<double>(from_ns);
}

// "-1.30 %", "+0.00 %".
std::string PrintChange(double change) {
  return absl::StrFormat("%+.2f %%", 100 * (change == 0 ? 0.0 : change));
}

void PrintBound(const TimeReport& report, std::ostream& out) {
  if (!report.bound) return;
  const LowerBound& bound = *report.bound;
  const RankBound& rank = bound.ranks[std::max(bound.rank.value, 0)];
  out << absl::StreamFormat("\n  at least %13s   by rank %d: ", PrintTime(bound.makespan_ns),
                            bound.rank.value);
  const char* separator = "";
  const auto add = [&](const char* what, int64_t ns) {
    if (ns == 0) return;
    out << separator << what << " " << PrintTime(ns);
    separator = " + ";
  };
  add("waits for its first forward", rank.head_ns);
  add("work", rank.work_ns);
  add("waits for its first gradient", rank.idle_ns);
  add(bound.forward_only ? "the stages behind it" : "the stages before it", rank.tail_ns);
  out << absl::StreamFormat("\n  this is %14s   above that\n",
                            PrintChange(Change(report.analysis.makespan_ns, bound.makespan_ns)));
}

void PrintPeriod(const TimeReport& report, std::ostream& out) {
  if (!report.period_ns) return;
  out << absl::StreamFormat(
      "\n  period   %13s   a further step, if every rank begins it when it has ended its own\n",
      PrintTime(*report.period_ns));
}

void PrintCriticalPath(const TimeReport& report, std::ostream& out) {
  constexpr int kBar = 30;
  if (report.analysis.critical.empty()) return;
  out << absl::StreamFormat("\n  critical path  %d events\n", report.analysis.critical.size());
  for (const auto& [what, ns] : report.critical_ns) {
    if (ns == 0) continue;
    const double share = static_cast<double>(ns) / static_cast<double>(report.analysis.makespan_ns);
    out << absl::StreamFormat("  %-12s %13s  %s %5.1f %%\n", what, PrintTime(ns),
                              PrintBar(share, kBar), 100 * share);
  }
}

void PrintWhatIf(const TimeReport& report, std::ostream& out) {
  if (report.what_if.empty()) return;
  out << "\n  what if                       makespan\n";
  for (const CopiesWhatIf& result : report.what_if) {
    out << absl::StreamFormat("  %-24s %13s  %s", result.name, PrintTime(result.makespan_ns),
                              PrintChange(Change(result.makespan_ns, report.analysis.makespan_ns)));
    if (result.after_ns > 0) out << ", and " << PrintTime(result.after_ns) << " after it";
    if (result.peak_bytes > 0) out << ", holds " << PrintBytes(result.peak_bytes, 3);
    out << "\n";
  }
}

// The classes that make up a rank's peak: of those that only some schedules have, the ones in use.
std::vector<MemoryClass> ClassesOf(const MemoryCurves& memory) {
  std::vector<MemoryClass> classes;
  for (int c = 0; c < kMemoryClasses; ++c) {
    const auto memory_class = static_cast<MemoryClass>(c);
    if (IsOnHost(memory_class)) continue;
    const bool is_own = memory_class >= MemoryClass::kOwn0 && memory_class < MemoryClass::kMessages;
    const bool of_some = is_own || memory_class == MemoryClass::kKept ||
                         memory_class == MemoryClass::kSliceKeys ||
                         memory_class == MemoryClass::kSliceKeyGrad;
    const bool seen =
        !of_some || std::any_of(memory.ranks.begin(), memory.ranks.end(),
                                [c](const MemoryCurve& curve) { return curve.at_peak[c] > 0; });
    if (seen) classes.push_back(memory_class);
  }
  return classes;
}

void PrintMemory(const TimeReport& report, std::ostream& out) {
  if (!report.memory.in_bytes) return;
  const std::vector<MemoryClass> classes = ClassesOf(report.memory);
  out << "\n  rank          peak  at it:";
  for (const MemoryClass c : classes)
    out << absl::StreamFormat(" %12s", NameOf(report.memory.rows, c));
  if (!report.memory.hosts.empty()) out << "   on its host";
  out << "\n";
  int64_t largest = 0;
  for (const MemoryCurve& curve : report.memory.ranks) largest = std::max(largest, curve.peak);
  for (size_t r = 0; r < report.memory.ranks.size(); ++r) {
    const MemoryCurve& curve = report.memory.ranks[r];
    out << absl::StreamFormat("  %4d %13s        ", r, PrintBytesBeside(largest, curve.peak, 3));
    for (const MemoryClass c : classes) {
      const int64_t bytes = curve.at_peak[static_cast<size_t>(c)];
      out << absl::StreamFormat(" %12s", bytes == 0 ? "" : PrintBytesBeside(largest, bytes, 3));
    }
    if (!report.memory.hosts.empty()) {
      out << absl::StreamFormat(" %13s", PrintBytesBeside(largest, report.memory.hosts[r].peak, 3));
    }
    out << "\n";
  }
}

void PrintRuns(const CostModel& costs, const TimeReport& report, std::ostream& out) {
  if (report.runs_ns.empty()) return;
  out << absl::StreamFormat("\n  jitter %s, %d runs, seed %d\n",
                            PrintShare(static_cast<double>(costs.jitter) * 1e-6),
                            report.runs_ns.size(), report.seed);
  for (const int percentile : kPercentiles) {
    const int64_t ns = PercentileOf(report.runs_ns, percentile);
    out << absl::StreamFormat("  %2d %% take at most %13s  %s\n", percentile, PrintTime(ns),
                              PrintChange(Change(ns, report.analysis.makespan_ns)));
  }
}

Json MemoryAsJson(const MemoryCurves& memory) {
  Json ranks = Json::array();
  for (size_t r = 0; r < memory.ranks.size(); ++r) {
    const MemoryCurve& curve = memory.ranks[r];
    Json rank = {{"peak", curve.peak}, {"at_us", Microseconds(curve.peak_ns)}};
    for (const MemoryClass c : ClassesOf(memory)) {
      if (memory.in_bytes)
        rank["by_class"][NameOf(memory.rows, c)] = curve.at_peak[static_cast<size_t>(c)];
    }
    if (!memory.hosts.empty()) rank["host_peak"] = memory.hosts[r].peak;
    ranks.push_back(std::move(rank));
  }
  return {{"unit", memory.in_bytes ? "bytes" : "activations"}, {"ranks", std::move(ranks)}};
}

}  // namespace

void PrintReport(const Session& step, const TimeReport& report, std::ostream& out) {
  PrintBubbles(step, report.bubbles, out);
  PrintPeriod(report, out);
  PrintBound(report, out);
  if (report.balance) {
    out << "\n";
    PrintBalance(*report.balance, report.analysis.makespan_ns, "  ", out);
  }
  PrintReady(step, out);
  PrintCauses(report.analysis.causes, out);
  PrintCausesOfRanks(report.analysis, out);
  if (report.network) PrintNetwork(*report.network, out);
  PrintCollectives(report.collectives, out);
  PrintCriticalPath(report, out);
  PrintWhatIf(report, out);
  PrintMemory(report, out);
  PrintOverfull(report.overfull, report.capacity, out);
  if (step.costs) PrintRuns(*step.costs, report, out);
}

Json ReportAsJson(const Session& step, const TimeReport& report) {
  Json json = BubblesAsJson(step, report.bubbles, report.analysis.causes);
  Json critical = Json::object();
  for (const auto& [name, ns] : report.critical_ns) critical[name] = Microseconds(ns);
  json["critical_us"] = std::move(critical);
  json["memory"] = MemoryAsJson(report.memory);
  AddOverfull(report.overfull, report.memory.in_bytes ? report.capacity : 0, &json);
  if (report.network) AddNetwork(*report.network, &json);
  AddCollectiveWaits(report.collectives, &json);
  if (report.period_ns) json["period_us"] = Microseconds(*report.period_ns);
  if (report.balance) AddBalance(*report.balance, &json);
  AddReady(step, &json);
  if (report.bound) json["bound_us"] = Microseconds(report.bound->makespan_ns);
  for (const CopiesWhatIf& result : report.what_if) {
    Json row = {{"name", result.name},
                {"makespan_us", Microseconds(result.makespan_ns)},
                {"change", Change(result.makespan_ns, report.analysis.makespan_ns)}};
    if (result.after_ns > 0) row["after_step_us"] = Microseconds(result.after_ns);
    if (result.peak_bytes > 0) row["peak_bytes"] = result.peak_bytes;
    json["what_if"].push_back(std::move(row));
  }
  if (!report.runs_ns.empty()) {
    Json percentiles = Json::object();
    for (const int percentile : kPercentiles) {
      percentiles[absl::StrCat("p", percentile)] =
          Microseconds(PercentileOf(report.runs_ns, percentile));
    }
    json["jitter"] = {{"runs", report.runs_ns.size()},
                      {"seed", report.seed},
                      {"makespan_us", std::move(percentiles)}};
  }
  return json;
}

}  // namespace stringline
