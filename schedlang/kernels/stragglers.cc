// Work belongs to the step in which it was launched. Kernels are kept by stream, name, step and
// rank; the rest are means over these.
#include "schedlang/kernels/stragglers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "schedlang/kernels/distribution.h"

namespace stringline {
namespace {

constexpr double kLeastShare = 0.01;  // of a mean step
constexpr size_t kLate = 2;           // ranks a step

struct LastKernel {
  int64_t start_ns = 0, length_ns = 0;
};
// Kernels by stream, name, step and rank.
using LastKernels =
    std::map<std::pair<int, std::string>, std::map<std::string, std::map<int, LastKernel>>>;

// The step in which a time lies; nothing outside all.
std::optional<std::string> StepAt(const KernelTrace& trace, int64_t at_ns) {
  if (trace.steps.empty()) return "";
  const auto after =
      std::upper_bound(trace.steps.begin(), trace.steps.end(), at_ns,
                       [](int64_t ns, const NamedSpan& step) { return ns < step.start_ns; });
  if (after == trace.steps.begin() || at_ns >= std::prev(after)->end_ns) return std::nullopt;
  return std::prev(after)->name;
}

std::optional<std::string> StepOf(const KernelTrace& trace, const DeviceRun& run) {
  if (run.call != kNoCall) return StepAt(trace, trace.calls[run.call].start_ns);
  return trace.steps.empty() ? std::optional<std::string>("") : std::nullopt;
}

struct AllSteps {
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  std::set<std::string> names;

  void Add(const TimeSpan& span, const std::optional<std::string>& step) {
    if (!step) return;
    first_ns = std::min(first_ns, span.start_ns);
    last_ns = std::max(last_ns, span.end_ns);
    names.insert(*step);
  }
  double mean_ns() const {
    return static_cast<double>(last_ns - first_ns) / static_cast<double>(names.size());
  }
};

LastKernels LongKernels(const std::vector<KernelTrace>& traces, double least_ns) {
  LastKernels kernels;
  for (const KernelTrace& trace : traces) {
    for (const DeviceRun& run : trace.runs) {
      if (run.work != DeviceWork::kCommunication) continue;
      const int64_t length_ns = run.end_ns - run.start_ns;
      const auto step = StepOf(trace, run);
      if (!step || static_cast<double>(length_ns) < least_ns) continue;
      kernels[{run.stream, trace.names[run.name]}][*step][trace.rank] = {run.start_ns, length_ns};
    }
  }
  return kernels;
}

// The mean of the steps' deviations of lengths among ranks; nothing if no step has two ranks.
std::optional<double> DeviationOf(const std::map<std::string, std::map<int, LastKernel>>& steps) {
  double sum = 0;
  int count = 0;
  for (const auto& [step, ranks] : steps) {
    if (ranks.size() < 2) continue;
    std::vector<double> lengths;
    for (const auto& [rank, kernel] : ranks) {
      lengths.push_back(static_cast<double>(kernel.length_ns));
    }
    sum += DistributionOf(lengths).deviation;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

}  // namespace

Stragglers StragglersOf(const std::vector<KernelTrace>& traces) {
  AllSteps all;
  for (const KernelTrace& trace : traces) {
    for (const HostCall& call : trace.calls) all.Add(call, StepAt(trace, call.start_ns));
    for (const DeviceRun& run : trace.runs) all.Add(run, StepOf(trace, run));
  }
  Stragglers stragglers;
  if (all.names.empty()) return stragglers;
  const LastKernels kernels = LongKernels(traces, kLeastShare * all.mean_ns());
  const auto* chosen = kernels.empty() ? nullptr : &*kernels.begin();
  std::optional<double> most;
  for (const auto& of_kernel : kernels) {
    const std::optional<double> deviation = DeviationOf(of_kernel.second);
    if (!deviation || (most && *deviation <= *most)) continue;
    most = deviation;
    chosen = &of_kernel;
  }
  if (!most) return stragglers;
  stragglers.kernel = chosen->first.second;
  stragglers.stream = chosen->first.first;
  std::map<int, std::vector<double>> starts;
  std::map<int, int> late;
  for (const auto& [step, ranks] : chosen->second) {
    ++stragglers.steps;
    std::vector<int64_t> begins_ns;
    for (const auto& [rank, kernel] : ranks) begins_ns.push_back(kernel.start_ns);
    std::sort(begins_ns.rbegin(), begins_ns.rend());
    const int64_t limit_ns = begins_ns[std::min(kLate, begins_ns.size()) - 1];
    for (const auto& [rank, kernel] : ranks) {
      starts[rank].push_back(static_cast<double>(kernel.start_ns - all.first_ns) / all.mean_ns());
      late[rank] += kernel.start_ns >= limit_ns ? 1 : 0;
    }
  }
  for (const auto& [rank, shares] : starts) {
    stragglers.ranks.push_back({rank, late[rank], DistributionOf(shares).mean});
  }
  std::stable_sort(stragglers.ranks.begin(), stragglers.ranks.end(),
                   [](const RankStart& a, const RankStart& b) {
                     return std::tie(b.late, b.start_share) < std::tie(a.late, a.start_share);
                   });
  return stragglers;
}

}  // namespace stringline
