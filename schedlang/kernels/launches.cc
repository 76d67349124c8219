// Every work with a launch gives one row; rows are sorted by the launch.
#include "schedlang/kernels/launches.h"

#include <algorithm>
#include <utility>

namespace stringline {
namespace {

constexpr int64_t kLongCallNs = 50'000, kLongDelayNs = 100'000;

bool IsOfRuntime(const std::string& name) {
  return name == "cudaLaunchKernel" || name == "cudaLaunchKernelExC" || name == "cudaMemcpyAsync" ||
         name == "cudaMemsetAsync";
}

Distribution MicrosecondsOf(const std::vector<KernelLaunch>& launches, int64_t KernelLaunch::*of) {
  std::vector<double> numbers;
  for (const KernelLaunch& launch : launches)
    numbers.push_back(static_cast<double>(launch.*of) / 1000);
  return DistributionOf(std::move(numbers));
}

}  // namespace

std::vector<KernelLaunch> LaunchesOf(const KernelTrace& trace) {
  std::vector<std::pair<uint32_t, KernelLaunch>> found;
  for (const DeviceRun& run : trace.runs) {
    if (run.call == kNoCall || !IsOfRuntime(trace.names[trace.calls[run.call].name])) continue;
    const HostCall& call = trace.calls[run.call];
    found.push_back({run.call,
                     {run.correlation, call.end_ns - call.start_ns, run.end_ns - run.start_ns,
                      std::max<int64_t>(run.start_ns - call.end_ns, 0)}});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<KernelLaunch> launches;
  for (const auto& [call, launch] : found) launches.push_back(launch);
  return launches;
}

LaunchFigures FiguresOf(const std::vector<KernelLaunch>& launches) {
  LaunchFigures figures{.host_us = MicrosecondsOf(launches, &KernelLaunch::host_ns),
                        .device_us = MicrosecondsOf(launches, &KernelLaunch::device_ns),
                        .delay_us = MicrosecondsOf(launches, &KernelLaunch::delay_ns)};
  for (const KernelLaunch& launch : launches) {
    figures.short_work += launch.device_ns < launch.host_ns ? 1 : 0;
    figures.long_calls += launch.host_ns > kLongCallNs ? 1 : 0;
    figures.long_delays += launch.delay_ns > kLongDelayNs ? 1 : 0;
  }
  return figures;
}

}  // namespace stringline
