// Names are interned while reading. Calls and work are sorted by start, and each work finds its
// call by the correlation.
#include "schedlang/kernels/kernel_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "schedlang/torch/trace_events.h"

namespace stringline {
namespace {

constexpr const char* kLaunches[] = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel",           "cudaMemcpyAsync",
    "cudaMemsetAsync",  "hipLaunchKernel",     "hipExtModuleLaunchKernel", "hipMemsetAsync",
    "hipMemcpyAsync",   "hipMemcpyWithStream"};

bool IsLaunch(const std::string& name) {
  return std::find(std::begin(kLaunches), std::end(kLaunches), name) != std::end(kLaunches);
}

bool StartsBefore(const TimeSpan& a, const TimeSpan& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
}

class KernelKeeper {
 public:
  explicit KernelKeeper(KernelTrace* trace) : trace_(*trace) {}

  void Keep(const TraceEvent& event) {
    if (event.name == "[memory]" && event.start_ns && event.allocated_bytes) {
      trace_.samples.push_back({*event.start_ns, *event.allocated_bytes,
                                event.reserved_bytes.value_or(0),
                                static_cast<int>(event.device_type.value_or(0)),
                                static_cast<int>(event.device.value_or(0))});
    }
    if (!event.is_span() || event.category == "Trace" || event.category.empty()) return;
    const TimeSpan span{*event.start_ns, *event.start_ns + *event.length_ns};
    const uint32_t name = NumberOf(event.name);
    if (event.stream.value_or(-1) >= 0) {
      const bool runs = event.category == "kernel" || event.category == "gpu_memcpy" ||
                        event.category == "gpu_memset";
      trace_.runs.push_back({span, name, static_cast<int>(*event.stream), event.process.value_or(0),
                             event.correlation.value_or(-1), kNoCall, DeviceWorkOf(event.name),
                             runs, event.bandwidth.value_or(0.0)});
      return;
    }
    absl::string_view step = event.name;
    const bool is_step =
        event.category == "user_annotation" && absl::ConsumePrefix(&step, "ProfilerStep#");
    if (is_step) trace_.steps.push_back({span, std::string(step)});
    trace_.calls.push_back({span, name, ThreadOf(event), event.correlation.value_or(-1),
                            event.correlation && IsLaunch(event.name), is_step,
                            event.category == "gpu_user_annotation"});
  }

  void Finish(int64_t base_ns) {
    const auto move = [&](auto* spans) {
      for (auto& span : *spans) {
        span.start_ns += base_ns;
        span.end_ns += base_ns;
      }
      std::stable_sort(spans->begin(), spans->end(), StartsBefore);
    };
    move(&trace_.calls);
    move(&trace_.runs);
    move(&trace_.steps);
    for (MemorySample& sample : trace_.samples) sample.at_ns += base_ns;
    std::stable_sort(trace_.samples.begin(), trace_.samples.end(),
                     [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  }

 private:
  uint32_t NumberOf(const std::string& name) {
    const auto [place, is_new] =
        numbers_.try_emplace(name, static_cast<uint32_t>(trace_.names.size()));
    if (is_new) trace_.names.push_back(name);
    return place->second;
  }

  uint32_t ThreadOf(const TraceEvent& event) {
    const std::pair key(event.process.value_or(-1), event.thread.value_or(-1));
    return threads_.try_emplace(key, static_cast<uint32_t>(threads_.size())).first->second;
  }

  KernelTrace& trace_;
  std::unordered_map<std::string, uint32_t> numbers_;  // of names
  std::map<std::pair<int64_t, int64_t>, uint32_t> threads_;
};

// Links each work with the call of the same correlation.
void LinkCalls(KernelTrace* trace) {
  std::vector<std::pair<int64_t, uint32_t>> calls;
  for (uint32_t i = 0; i < trace->calls.size(); ++i) {
    if (trace->calls[i].correlation >= 0) calls.emplace_back(trace->calls[i].correlation, i);
  }
  std::sort(calls.begin(), calls.end());
  for (DeviceRun& run : trace->runs) {
    run.call = kNoCall;
    const auto call =
        std::lower_bound(calls.begin(), calls.end(), std::pair(run.correlation, uint32_t{0}));
    if (run.correlation < 0 || call == calls.end() || call->first != run.correlation) continue;
    run.call = call->second;
  }
}

// Keeps the calls that begin within, and the work that they launch.
void KeepWithin(int64_t from_ns, int64_t to_ns, KernelTrace* trace) {
  const auto is_out = [&](int64_t at_ns) { return at_ns < from_ns || at_ns >= to_ns; };
  const auto drop = [](auto* items, auto&& is_dropped) {
    items->erase(std::remove_if(items->begin(), items->end(), is_dropped), items->end());
  };
  drop(&trace->runs, [&](const DeviceRun& run) {
    return run.call == kNoCall || is_out(trace->calls[run.call].start_ns);
  });
  drop(&trace->calls, [&](const HostCall& call) { return is_out(call.start_ns); });
  drop(&trace->samples, [&](const MemorySample& sample) { return is_out(sample.at_ns); });
  LinkCalls(trace);
}

}  // namespace

absl::StatusOr<KernelTrace> ReadKernelTrace(std::istream& json, const std::string& file) {
  KernelTrace trace;
  trace.file = file;
  KernelKeeper keeper(&trace);
  TraceHeader header;
  SL_RETURN_IF_ERROR(
      ReadTraceEvents(json, file, &header, [&](const TraceEvent& event) { keeper.Keep(event); }));
  keeper.Finish(header.base_ns);
  LinkCalls(&trace);
  trace.rank = header.rank;
  trace.base_ns = header.base_ns;
  return trace;
}

absl::StatusOr<KernelTrace> PartOf(KernelTrace trace, std::optional<int> step) {
  if (!step) {
    if (trace.steps.size() > 1) {
      KeepWithin(std::numeric_limits<int64_t>::min(), trace.steps.back().start_ns, &trace);
    }
    return trace;
  }
  for (const NamedSpan& span : trace.steps) {
    int number = 0;
    if (!absl::SimpleAtoi(span.name, &number) || number != *step) continue;
    KeepWithin(span.start_ns, span.end_ns, &trace);
    return trace;
  }
  const std::string known = absl::StrJoin(
      trace.steps, ", ", [](std::string* out, const NamedSpan& span) { *out += span.name; });
  return absl::InvalidArgumentError(
      absl::StrCat(trace.file, ": step ", *step,
                   " is not in it; its steps are: ", known.empty() ? "none" : known));
}

int64_t FirstNs(const KernelTrace& trace) {
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  if (!trace.calls.empty()) first_ns = trace.calls[0].start_ns;
  if (!trace.runs.empty()) first_ns = std::min(first_ns, trace.runs[0].start_ns);
  if (!trace.samples.empty()) first_ns = std::min(first_ns, trace.samples[0].at_ns);
  return first_ns == std::numeric_limits<int64_t>::max() ? 0 : first_ns;
}

}  // namespace stringline
