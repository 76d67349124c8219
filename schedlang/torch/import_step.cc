// The plan, then times by every rank's own clock, then the clocks. Then everything is put on a
// common clock: computations from the arrival of their needs, messages between their ends, and
// untraced actions without length behind the rank's previous action.
#include "schedlang/torch/import_step.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/plan/links.h"
#include "schedlang/torch/find_actions.h"
#include "schedlang/torch/trace_steps.h"
#include "schedlang/torch/traced_plan.h"
#include "schedlang/torch/traced_times.h"

namespace stringline {
namespace {

absl::Status SortByRank(std::vector<RankTrace>* traces) {
  if (traces->empty()) return absl::InvalidArgumentError("no trace is given");
  std::stable_sort(traces->begin(), traces->end(),
                   [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < traces->size(); ++i) {
    const RankTrace& one = (*traces)[i - 1];
    const RankTrace& other = (*traces)[i];
    if (one.rank != other.rank) continue;
    return absl::InvalidArgumentError(absl::StrCat(other.file, ": of rank ", other.rank, ", as is ",
                                                   one.file, "; give one trace a rank"));
  }
  return absl::OkStatus();
}

// Bounds of clocks are sums of differences of times, which must not overflow.
absl::Status CheckSpan(const std::vector<RankTrace>& traces, const std::vector<TraceStep>& steps) {
  constexpr int64_t kMost = int64_t{1} << 50;
  const int64_t first_ns = traces[0].actions[steps[0].first].start_ns;
  for (const RankTrace& trace : traces) {
    const auto is_far = [&](const TimeSpan& span) {
      return span.start_ns < first_ns - kMost || span.end_ns > first_ns + kMost;
    };
    if (std::none_of(trace.actions.begin(), trace.actions.end(), is_far) &&
        std::none_of(trace.gloo.begin(), trace.gloo.end(), is_far) &&
        std::none_of(trace.device.begin(), trace.device.end(), is_far)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(trace.file,
                                                   ": its times are days from those of ",
                                                   traces[0].file, "; are both of one run?"));
  }
  return absl::OkStatus();
}

// Every rank must have known times, and every wait of a host must be known.
absl::Status CheckTimes(const Plan& plan, const TracedTimes& times,
                        const std::vector<RankTrace>& traces) {
  for (int r = 0; r < plan.ranks(); ++r) {
    bool is_known = false;
    for (uint32_t i = plan.first[r]; i < plan.first[r + 1]; ++i) {
      is_known = is_known || times.spans[i].has_value();
      if (times.on_device[r] != 0 || times.spans[i] || !IsRecv(plan.actions[i].kind)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          traces[r].file, ": nothing was done on a GPU, and no gloo:recv began in PP:",
          Print(plan, plan.actions[i]),
          "; was the GPU profiled (ProfilerActivity.CUDA)? Without one only gloo says when "
          "messages arrive"));
    }
    if (is_known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(traces[r].file,
                     ": nothing that a GPU did was launched within a range PP:…; are launches "
                     "(cuda_runtime) in the trace?"));
  }
  return absl::OkStatus();
}

class StepOnOneClock {
 public:
  StepOnOneClock(const TracedPlan& traced, TracedTimes times)
      : plan_(traced.plan),
        wiring_(WiringOf(traced.plan, CommLayout::kEdge)),
        times_(std::move(times)),
        timeline_(TimelineOf(traced.plan, "measured")),
        begun_ns_(plan_.actions.size(), std::numeric_limits<int64_t>::max()) {
    for (int r = 0; r < plan_.ranks(); ++r) {
      ranks_.resize(plan_.first[r + 1], r);
    }
  }

  AlignedClocks Align(const std::vector<RankTrace>& traces) {
    std::vector<ClockBound> bounds;
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const uint32_t other = wiring_.wires[i].other;
      if (!IsSend(plan_.actions[i].kind) || other == kNoAction) continue;
      const auto &sent = times_.spans[i], &received = times_.spans[other];
      if (!sent || !received) continue;
      bounds.push_back({ranks_[i], ranks_[other], received->end_ns - sent->start_ns});
    }
    std::vector<ClockBound> with_hosts = bounds;
    for (size_t r = 1; r < traces.size(); ++r) {
      for (size_t q = 0; q < r; ++q) {
        if (traces[q].host.empty() || traces[q].host != traces[r].host) continue;
        const int one = static_cast<int>(q), other = static_cast<int>(r);
        with_hosts.push_back({one, other, 0});
        with_hosts.push_back({other, one, 0});
        break;
      }
    }
    AlignedClocks clocks = AlignClocks(plan_.ranks(), std::move(with_hosts));
    if (clocks.broken_ns > 0) clocks = AlignClocks(plan_.ranks(), std::move(bounds));
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const int64_t offset_ns = clocks.ranks[ranks_[i]].offset_ns;
      times_.waits_from_ns[i] += offset_ns;
      if (!times_.spans[i]) continue;
      times_.spans[i]->start_ns += offset_ns;
      times_.spans[i]->end_ns += offset_ns;
    }
    return clocks;
  }

  // By rank, the times of its computations, before overlaps are cut.
  std::vector<std::vector<TimeSpan>> Computations() {
    std::vector<std::vector<TimeSpan>> computations(plan_.ranks());
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (!IsCompute(plan_.actions[i].kind) || plan_.actions[i].joined || !times_.spans[i]) {
        continue;
      }
      TimeSpan& span = *times_.spans[i];
      if (times_.on_device[ranks_[i]] == 0) {
        begun_ns_[i] = times_.waits_from_ns[i];
        span.start_ns = std::min(span.end_ns, std::max(span.start_ns, ArrivalBefore(i)));
      }
      computations[ranks_[i]].push_back(span);
    }
    return computations;
  }

  Timeline Tell() {
    timeline_.observed.resize(timeline_.events.size());
    for (int r = 0; r < plan_.ranks(); ++r) TellRank(r);
    const int64_t typical_ns = TypicalMessage();
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (IsSend(plan_.actions[i].kind)) TellMessage(i, typical_ns);
    }
    StartAtZero();
    return std::move(timeline_);
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

  // The arrival of the computation's last message; kNever if it waits for no message.
  int64_t ArrivalBefore(uint32_t action) const {
    int64_t at_ns = kNever;
    for (const uint32_t recv : {wiring_.wires[action].input, wiring_.wires[action].gradient}) {
      if (recv == kNoAction || !times_.spans[recv]) continue;
      at_ns = std::max(at_ns, times_.spans[recv]->end_ns);
    }
    return at_ns;
  }

  // All but messages. An event that overlaps the computation before it starts at its end.
  void TellRank(int rank) {
    int64_t free_ns = kNever;
    for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1]; ++i) {
      Event& event = timeline_.events[i];
      if (IsMessage(event.kind)) continue;
      if (event.joined) {
        event.start_ns = timeline_.events[i - 1].start_ns;
        event.end_ns = timeline_.events[i - 1].end_ns;
      } else {
        const int64_t now_ns = free_ns == kNever ? FirstOf(rank) : free_ns;
        const TimeSpan span = times_.spans[i].value_or(TimeSpan{now_ns, now_ns});
        event.start_ns = IsCompute(event.kind) ? std::max(span.start_ns, free_ns) : span.start_ns;
        event.end_ns = std::max(event.start_ns, span.end_ns);
      }
      timeline_.observed[i] = {event.start_ns, event.end_ns};
      if (IsCompute(event.kind)) free_ns = event.end_ns;
    }
  }

  int64_t FirstOf(int rank) const {
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    for (uint32_t i = plan_.first[rank]; i < plan_.first[rank + 1]; ++i) {
      if (times_.spans[i]) first_ns = std::min(first_ns, times_.spans[i]->start_ns);
    }
    return first_ns;
  }

  // The median length of messages whose receiver waited before they left; the largest number if
  // none did.
  int64_t TypicalMessage() const {
    std::vector<int64_t> lengths_ns;
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (!IsCompute(plan_.actions[i].kind)) continue;
      for (const uint32_t recv : {wiring_.wires[i].input, wiring_.wires[i].gradient}) {
        if (recv == kNoAction || !IsRecv(plan_.actions[recv].kind)) continue;
        const uint32_t send = wiring_.wires[recv].other;
        if (send == kNoAction || !times_.spans[recv] || !times_.spans[send]) continue;
        if (begun_ns_[i] > times_.spans[send]->start_ns) continue;
        const int64_t length_ns = times_.spans[recv]->end_ns - times_.spans[send]->start_ns;
        lengths_ns.push_back(std::max<int64_t>(length_ns, 0));  // clocks may drift
      }
    }
    if (lengths_ns.empty()) return std::numeric_limits<int64_t>::max();
    std::sort(lengths_ns.begin(), lengths_ns.end());
    return lengths_ns[lengths_ns.size() / 2];
  }

  void TellMessage(uint32_t send, int64_t typical_ns) {
    const Wire& wire = wiring_.wires[send];
    const uint32_t recv = wire.other;
    const bool on_device = times_.on_device[ranks_[recv]] != 0;
    const auto &sent = times_.spans[send], &received = times_.spans[recv];
    int64_t start_ns = sent ? sent->start_ns : timeline_.events[wire.maker].end_ns;
    int64_t end_ns = received ? received->end_ns : start_ns;
    if (on_device && received) start_ns = std::max(start_ns, received->start_ns);
    end_ns = std::max(start_ns, end_ns);
    timeline_.observed[send] = {on_device ? start_ns : end_ns, end_ns};
    timeline_.observed[recv] = timeline_.observed[send];
    if (!on_device && end_ns - start_ns > typical_ns) end_ns = start_ns + typical_ns;
    for (const uint32_t i : {send, recv}) {
      timeline_.events[i].start_ns = start_ns;
      timeline_.events[i].end_ns = end_ns;
    }
  }

  // The start of the first computation, or of the gathers for it on its rank.
  int64_t StartOfStep() const {
    uint32_t first = 0;
    int64_t start_ns = std::numeric_limits<int64_t>::max();
    for (uint32_t i = 0; i < timeline_.events.size(); ++i) {
      const Event& event = timeline_.events[i];
      if (!IsCompute(event.kind) || event.start_ns >= start_ns) continue;
      start_ns = event.start_ns;
      first = i;
    }
    for (uint32_t i = plan_.first[ranks_[first]]; i < first; ++i) {
      start_ns = std::min(start_ns, timeline_.events[i].start_ns);
    }
    return start_ns;
  }

  // Shifts all times to the start of the step. A rank that comes to the step earlier has not begun
  // it: its gathers are moved to the start.
  void StartAtZero() {
    const int64_t zero_ns = StartOfStep();
    bool moved = false;
    for (Event& event : timeline_.events) {
      const int64_t early_ns = std::max<int64_t>(zero_ns - event.start_ns, 0);
      moved = moved || early_ns > 0;
      event.start_ns += early_ns - zero_ns;
      event.end_ns += early_ns - zero_ns;
    }
    for (ObservedTimes& times : timeline_.observed) {
      times.start_ns -= zero_ns;
      times.end_ns -= zero_ns;
    }
    const bool on_host = std::count(times_.on_device.begin(), times_.on_device.end(), 0) > 0;
    if (!moved && !on_host) timeline_.observed.clear();
  }

  const Plan& plan_;
  const Wiring wiring_;
  TracedTimes times_;
  Timeline timeline_;
  std::vector<int64_t> begun_ns_;  // by action: for a host's computation, the start of its wait
  std::vector<int> ranks_;         // by action
};

}  // namespace

absl::StatusOr<ImportedStep> ImportStep(std::vector<RankTrace> traces, std::optional<int> step) {
  SL_RETURN_IF_ERROR(SortByRank(&traces));
  SL_RETURN_IF_ERROR(FindActions(&traces));
  ImportedStep imported;
  SL_ASSIGN_OR_RETURN(const std::vector<TraceStep> steps,
                      ChooseStep(traces, step, &imported.steps));
  SL_RETURN_IF_ERROR(CheckSpan(traces, steps));
  SL_ASSIGN_OR_RETURN(TracedPlan traced, PlanOfTraces(traces, steps));
  const TracedTimes times = TimesOf(traced, traces, steps);
  SL_RETURN_IF_ERROR(CheckTimes(traced.plan, times, traces));
  StepOnOneClock told(traced, times);
  const AlignedClocks clocks = told.Align(traces);
  const std::vector<std::vector<TimeSpan>> computations = told.Computations();
  std::set<std::string> hosts;
  for (size_t r = 0; r < traces.size(); ++r) {
    const bool on_device = times.on_device[r] != 0;
    // The rank's own clock, as in its trace.
    std::vector<TimeSpan> own = computations[r];
    for (TimeSpan& span : own) {
      span.start_ns -= clocks.ranks[r].offset_ns;
      span.end_ns -= clocks.ranks[r].offset_ns;
    }
    imported.ranks.push_back({traces[r].file, traces[r].rank, on_device, clocks.ranks[r],
                              BusyTimesOf(WorkOf(traces[r], steps[r], on_device, own))});
    hosts.insert(traces[r].host);
  }
  imported.timeline = told.Tell();
  imported.plan = std::move(traced.plan);
  imported.step = steps[0].number;
  imported.hosts = static_cast<int>(hosts.size());
  imported.clocks_off_ns = clocks.broken_ns;
  return imported;
}

}  // namespace stringline
