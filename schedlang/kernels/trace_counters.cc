// Changes by +1 and -1, or by a rate, are sorted by time and summed.
#include "schedlang/kernels/trace_counters.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

// Changes become sums.
void SumUp(TraceCurve* curve) {
  std::stable_sort(curve->samples.begin(), curve->samples.end(),
                   [](const CurveSample& a, const CurveSample& b) { return a.at_ns < b.at_ns; });
  double sum = 0;
  for (CurveSample& sample : curve->samples) sample.value = sum += sample.value;
}

template <typename Key>
std::vector<TraceCurve> CurvesOf(std::map<Key, TraceCurve> by_key) {
  std::vector<TraceCurve> curves;
  for (auto& [key, curve] : by_key) {
    SumUp(&curve);
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::string KindOfCopy(const std::string& name) {
  if (absl::StartsWith(name, "Memset")) return "Memset";
  return absl::StartsWith(name, "Memcpy") ? name.substr(0, 11) : "Memcpy Unknown";
}

Distribution DistributionAbove(const TraceCurve& curve, double least) {
  std::vector<double> values;
  for (const CurveSample& sample : curve.samples) {
    if (sample.value > least) values.push_back(sample.value);
  }
  return DistributionOf(std::move(values));
}

}  // namespace

std::vector<TraceCurve> QueueLengthsOf(const KernelTrace& trace) {
  std::map<int, TraceCurve> streams;
  for (const DeviceRun& run : trace.runs) {
    if (run.call == kNoCall || !trace.calls[run.call].launches) continue;
    TraceCurve& curve = streams[run.stream];
    curve.name = absl::StrCat("stream ", run.stream);
    curve.stream = run.stream;
    curve.process = run.process;
    curve.samples.push_back({trace.calls[run.call].start_ns, 1});
    curve.samples.push_back({run.start_ns, -1});
  }
  return CurvesOf(std::move(streams));
}

std::vector<TraceCurve> CopyRatesOf(const KernelTrace& trace) {
  std::map<std::string, TraceCurve> kinds;
  for (const DeviceRun& run : trace.runs) {
    if (run.work != DeviceWork::kMemory) continue;
    const std::string kind = KindOfCopy(trace.names[run.name]);
    TraceCurve& curve = kinds[kind];
    curve.name = kind;
    curve.process = run.process;
    const int64_t end_ns = run.end_ns > run.start_ns ? run.end_ns : run.start_ns + 1'000;
    curve.samples.push_back({run.start_ns, run.gigabytes_per_s});
    curve.samples.push_back({end_ns, -run.gigabytes_per_s});
  }
  return CurvesOf(std::move(kinds));
}

Distribution DistributionOfQueue(const TraceCurve& queue) {
  return DistributionAbove(queue, -1e18);
}

Distribution DistributionOfRate(const TraceCurve& rate) { return DistributionAbove(rate, 0); }

}  // namespace stringline
