// Calls of a thread nest. They are walked by start, with a stack of those that are open: the depth
// of a call, and the launches until its end.
#include "schedlang/kernels/kernel_sequences.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"

namespace stringline {
namespace {

// Depths of calls in their threads. Autograd's threads are as deep as if the step had called them.
std::vector<int> DepthsOf(const KernelTrace& trace) {
  uint32_t threads = 0;
  for (const HostCall& call : trace.calls) threads = std::max(threads, call.thread + 1);
  std::vector<char> has_step(threads), has_autograd(threads);
  bool any_step = false;
  for (const HostCall& call : trace.calls) {
    any_step = any_step || call.is_step;
    if (call.is_step) has_step[call.thread] = 1;
    if (absl::StrContains(trace.names[call.name], "autograd::")) has_autograd[call.thread] = 1;
  }
  std::vector<std::vector<int64_t>> open(threads);  // the ends of open calls
  std::vector<int> depths;
  for (const HostCall& call : trace.calls) {
    std::vector<int64_t>& ends = open[call.thread];
    while (!ends.empty() && ends.back() <= call.start_ns) ends.pop_back();
    const bool is_below = any_step && has_autograd[call.thread] != 0 && has_step[call.thread] == 0;
    depths.push_back(static_cast<int>(ends.size()) + (is_below ? 1 : 0));
    ends.push_back(call.end_ns);
  }
  return depths;
}

// The work of every thread, by the start of its launch.
std::vector<std::vector<uint32_t>> LaunchedBy(const KernelTrace& trace) {
  std::vector<std::vector<uint32_t>> runs;
  for (uint32_t i = 0; i < trace.runs.size(); ++i) {
    if (trace.runs[i].call == kNoCall) continue;
    const uint32_t thread = trace.calls[trace.runs[i].call].thread;
    if (runs.size() <= thread) runs.resize(thread + 1);
    runs[thread].push_back(i);
  }
  for (std::vector<uint32_t>& of_thread : runs) {
    std::stable_sort(of_thread.begin(), of_thread.end(), [&](uint32_t a, uint32_t b) {
      return trace.runs[a].call < trace.runs[b].call;
    });
  }
  return runs;
}

}  // namespace

std::vector<KernelSequence> KernelSequencesOf(const KernelTrace& trace, absl::string_view part,
                                              int least_kernels) {
  const std::vector<int> depths = DepthsOf(trace);
  std::vector<char> is_named(trace.names.size());
  for (size_t n = 0; n < trace.names.size(); ++n) {
    is_named[n] = absl::StrContains(trace.names[n], part) ? 1 : 0;
  }
  const auto is_candidate = [&](const HostCall& call) {
    return !call.on_device && is_named[call.name] != 0;
  };
  int least_depth = std::numeric_limits<int>::max();
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    if (is_candidate(trace.calls[i])) least_depth = std::min(least_depth, depths[i]);
  }
  std::vector<std::vector<uint32_t>> launched = LaunchedBy(trace);
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, KernelSequence> found;
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    const HostCall& call = trace.calls[i];
    if (!is_candidate(call) || depths[i] != least_depth || call.thread >= launched.size()) continue;
    const std::vector<uint32_t>& of_thread = launched[call.thread];
    const auto launch_ns = [&](uint32_t run) { return trace.calls[trace.runs[run].call].start_ns; };
    auto run = std::lower_bound(of_thread.begin(), of_thread.end(), call.start_ns,
                                [&](uint32_t at, int64_t ns) { return launch_ns(at) < ns; });
    std::vector<uint32_t> within;
    for (; run != of_thread.end() && launch_ns(*run) < call.end_ns; ++run) within.push_back(*run);
    if (static_cast<int>(within.size()) < least_kernels) continue;
    std::sort(within.begin(), within.end());  // runs are by start
    std::vector<uint32_t> kernels;
    int64_t device_ns = 0;
    for (const uint32_t one : within) {
      kernels.push_back(trace.runs[one].name);
      device_ns += trace.runs[one].end_ns - trace.runs[one].start_ns;
    }
    KernelSequence& sequence = found[{call.name, kernels}];
    sequence.call = call.name;
    sequence.kernels = std::move(kernels);
    ++sequence.count;
    sequence.device_ns += device_ns;
    sequence.host_ns += call.end_ns - call.start_ns;
  }
  std::vector<KernelSequence> sequences;
  for (auto& [key, sequence] : found) sequences.push_back(std::move(sequence));
  std::stable_sort(
      sequences.begin(), sequences.end(),
      [](const KernelSequence& a, const KernelSequence& b) { return a.count > b.count; });
  return sequences;
}

}  // namespace stringline
