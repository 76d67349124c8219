#include "schedlang/torch/traced_times.h"

#include <algorithm>

namespace stringline {
namespace {

bool IsWithin(int64_t at_ns, const TimeSpan& span) {
  return at_ns >= span.start_ns && at_ns < span.end_ns;
}

void Widen(const TimeSpan& by, std::optional<TimeSpan>* span) {
  if (!*span) *span = by;
  (*span)->start_ns = std::min((*span)->start_ns, by.start_ns);
  (*span)->end_ns = std::max((*span)->end_ns, by.end_ns);
}

// The work launched within a range of a rank: its NCCL kernels and all else.
struct Launched {
  std::optional<TimeSpan> communication, rest;
};
std::vector<Launched> LaunchedIn(const RankTrace& trace) {
  std::vector<Launched> launched(trace.actions.size());
  for (const DeviceSpan& work : trace.device) {
    const auto after = std::upper_bound(
        trace.actions.begin(), trace.actions.end(), work.launched_ns,
        [](int64_t at_ns, const NamedSpan& range) { return at_ns < range.start_ns; });
    if (!work.runs || after == trace.actions.begin()) continue;
    if (!IsWithin(work.launched_ns, *std::prev(after))) continue;
    Launched& of = launched[static_cast<size_t>(after - trace.actions.begin()) - 1];
    Widen(work, work.work == DeviceWork::kCommunication ? &of.communication : &of.rest);
  }
  return launched;
}

std::optional<TimeSpan> OnDevice(ActionKind kind, const Launched& launched) {
  if (IsMessage(kind)) return launched.communication;
  if (IsCompute(kind)) return launched.rest;
  std::optional<TimeSpan> all = launched.communication;
  if (launched.rest) Widen(*launched.rest, &all);
  return all;
}

// The first of the spans that begin within the range.
template <typename Spans>
auto FirstIn(const Spans& spans, const TimeSpan& range) {
  return std::lower_bound(spans.begin(), spans.end(), range.start_ns,
                          [](const TimeSpan& span, int64_t ns) { return span.start_ns < ns; });
}

std::optional<TimeSpan> OnHost(ActionKind kind, const RankTrace& trace, const NamedSpan& range) {
  TimeSpan span = range;
  if (IsSend(kind)) {
    const auto send = FirstIn(trace.sends, range);
    if (send != trace.sends.end() && IsWithin(send->start_ns, range)) {
      span.start_ns = send->start_ns;
    }
  } else if (IsRecv(kind)) {
    bool is_asked_for = false;
    span.end_ns = range.start_ns;
    for (auto recv = FirstIn(trace.gloo, range);
         recv != trace.gloo.end() && IsWithin(recv->start_ns, range); ++recv) {
      if (recv->name != "recv") continue;
      span.end_ns = std::max(span.end_ns, recv->end_ns);
      is_asked_for = true;
    }
    if (!is_asked_for) return std::nullopt;
  }
  return span;
}

// Gives messages of a rank without a kernel that of the message listed next.
void ShareKernels(const Plan& plan, int rank, TracedTimes* times) {
  for (uint32_t i = plan.first[rank + 1]; i-- > plan.first[rank];) {
    if (!IsMessage(plan.actions[i].kind) || times->spans[i]) continue;
    const bool has_next = i + 1 < plan.first[rank + 1] && IsMessage(plan.actions[i + 1].kind);
    if (has_next) times->spans[i] = times->spans[i + 1];
  }
}

}  // namespace

TracedTimes TimesOf(const TracedPlan& traced, const std::vector<RankTrace>& traces,
                    const std::vector<TraceStep>& steps) {
  TracedTimes times;
  for (int r = 0; r < traced.plan.ranks(); ++r) {
    const RankTrace& trace = traces[r];
    const bool on_device =
        std::any_of(trace.device.begin(), trace.device.end(), [&](const DeviceSpan& work) {
          return work.runs && work.launched_ns >= steps[r].from_ns &&
                 work.launched_ns < steps[r].to_ns;
        });
    times.on_device.push_back(on_device ? 1 : 0);
    const std::vector<Launched> launched = LaunchedIn(trace);
    for (uint32_t i = traced.plan.first[r]; i < traced.plan.first[r + 1]; ++i) {
      const ActionKind kind = traced.plan.actions[i].kind;
      const uint32_t range = traced.range[i];
      times.spans.push_back(on_device ? OnDevice(kind, launched[range])
                                      : OnHost(kind, trace, trace.actions[range]));
      times.waits_from_ns.push_back(trace.waits_from_ns.empty() ? trace.actions[range].start_ns
                                                                : trace.waits_from_ns[range]);
    }
    if (on_device && !trace.waits_from_ns.empty()) ShareKernels(traced.plan, r, &times);
  }
  return times;
}

std::vector<DeviceSpan> WorkOf(const RankTrace& trace, const TraceStep& step, bool on_device,
                               const std::vector<TimeSpan>& computations) {
  const auto is_of_step = [&](int64_t at_ns) {
    return at_ns >= step.from_ns && at_ns < step.to_ns;
  };
  std::vector<DeviceSpan> work;
  if (on_device) {
    std::copy_if(trace.device.begin(), trace.device.end(), std::back_inserter(work),
                 [&](const DeviceSpan& span) { return is_of_step(span.launched_ns); });
    return work;
  }
  for (const TimeSpan& span : computations) work.push_back({span, DeviceWork::kComputation});
  for (const NamedSpan& span : trace.gloo) {
    if (is_of_step(span.start_ns)) work.push_back({span, DeviceWork::kCommunication});
  }
  return work;
}

}  // namespace stringline
