// Kinds: starts and ends of all work, sorted, with the number that runs of each kind. Kernels: sums
// by the number of the name.
#include "schedlang/kernels/kernel_times.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

constexpr DeviceWork kKinds[] = {DeviceWork::kComputation, DeviceWork::kCommunication,
                                 DeviceWork::kMemory};

// Adds the time in which each set of kinds, as bits, ran in a trace.
void AddSets(const KernelTrace& trace, std::array<int64_t, 8>* sets) {
  struct Change {
    int64_t at_ns;
    size_t kind;
    int by;
  };
  std::vector<Change> changes;
  for (const DeviceRun& run : trace.runs) {
    for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
      if (run.work != kKinds[kind]) continue;
      changes.push_back({run.start_ns, kind, 1});
      changes.push_back({run.end_ns, kind, -1});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
  std::array<int, std::size(kKinds)> running{};
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    running[changes[i].kind] += changes[i].by;
    size_t set = 0;
    for (size_t kind = 0; kind < running.size(); ++kind)
      set |= (running[kind] > 0 ? 1U : 0U) << kind;
    (*sets)[set] += changes[i + 1].at_ns - changes[i].at_ns;
  }
}

}  // namespace

std::string KindTime::name() const {
  std::string text;
  const auto add = [&](bool is_in, const char* kind) {
    if (is_in) absl::StrAppend(&text, text.empty() ? "" : ", ", kind);
  };
  add(computes, "computation");
  add(communicates, "communication");
  add(copies, "memory");
  return text;
}

std::vector<KindTime> KindTimesOf(const std::vector<KernelTrace>& traces) {
  std::array<int64_t, 8> sets{};
  for (const KernelTrace& trace : traces) AddSets(trace, &sets);
  sets[0] = 0;
  int64_t all_ns = 0;
  for (const int64_t time_ns : sets) all_ns += time_ns;
  std::vector<KindTime> times;
  for (size_t set = 1; set < sets.size(); ++set) {
    if (sets[set] == 0) continue;
    times.push_back({(set & 1) != 0, (set & 2) != 0, (set & 4) != 0, sets[set],
                     static_cast<double>(sets[set]) / static_cast<double>(all_ns)});
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const KindTime& a, const KindTime& b) { return a.time_ns > b.time_ns; });
  return times;
}

std::vector<KernelTime> KernelTimesOf(const KernelTrace& trace) {
  std::vector<KernelTime> of_name(trace.names.size());
  for (const DeviceRun& run : trace.runs) {
    if (run.work == DeviceWork::kOther) continue;
    KernelTime& time = of_name[run.name];
    const int64_t length_ns = run.end_ns - run.start_ns;
    time.least_ns = time.count == 0 ? length_ns : std::min(time.least_ns, length_ns);
    time.most_ns = std::max(time.most_ns, length_ns);
    time.name = run.name;
    time.work = run.work;
    time.sum_ns += length_ns;
    ++time.count;
  }
  for (KernelTime& time : of_name) {
    if (time.count > 0)
      time.mean_ns = static_cast<double>(time.sum_ns) / static_cast<double>(time.count);
  }
  for (const DeviceRun& run : trace.runs) {
    if (run.work == DeviceWork::kOther) continue;
    KernelTime& time = of_name[run.name];
    const double off_ns = static_cast<double>(run.end_ns - run.start_ns) - time.mean_ns;
    time.deviation_ns += off_ns * off_ns;
  }
  std::vector<KernelTime> times;
  for (KernelTime& time : of_name) {
    if (time.count == 0) continue;
    time.deviation_ns =
        time.count > 1 ? std::sqrt(time.deviation_ns / static_cast<double>(time.count - 1)) : 0.0;
    times.push_back(time);
  }
  std::sort(times.begin(), times.end(), [&](const KernelTime& a, const KernelTime& b) {
    if (a.sum_ns != b.sum_ns) return a.sum_ns > b.sum_ns;
    return trace.names[a.name] < trace.names[b.name];
  });
  return times;
}

}  // namespace stringline
