// Every rank advances until a need has not arrived, every queue until its first call lacks its
// other end; when both ends have started, both queues get the time and go on. If all stop, reasons
// are followed from a stuck action until one repeats: the cycle.
#include "schedlang/torch/comm_stream.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "schedlang/plan/effects.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

// Follows reasons from a stuck action until one repeats.
class StuckPlan {
 public:
  StuckPlan(const Plan& plan, const Wiring& wiring, const Timeline& timeline)
      : plan_(plan), wiring_(wiring), events_(timeline.events) {}

  std::vector<Blocked> Cycle() const {
    std::vector<Blocked> walk;
    std::map<uint32_t, size_t> place;
    std::optional<uint32_t> at = FirstStuck();
    while (at && place.try_emplace(*at, walk.size()).second) {
      const auto [why, next] = ReasonOf(*at);
      walk.push_back({*at, why});
      at = next;
    }
    if (!at) return {};
    const auto begin = static_cast<std::ptrdiff_t>(place.at(*at));
    return {walk.begin() + begin, walk.end()};
  }

 private:
  bool HasEnded(uint32_t action) const { return events_[action].end_ns >= 0; }
  bool HasStarted(uint32_t action) const { return events_[action].start_ns >= 0; }

  std::optional<uint32_t> HeadOf(int queue) const {
    for (const uint32_t call : wiring_.of(queue)) {
      if (!HasEnded(call)) return call;
    }
    return std::nullopt;
  }

  // The head of the first stuck queue.
  std::optional<uint32_t> FirstStuck() const {
    for (size_t q = 0; q + 1 < wiring_.first_call.size(); ++q) {
      if (const auto head = HeadOf(static_cast<int>(q))) return head;
    }
    return std::nullopt;
  }

  // The first unfinished computation of the rank, if listed before the action; else the action.
  uint32_t FirstNotEnded(uint32_t i) const {
    for (uint32_t before = wiring_.listed[i].computation; before != kNoAction && !HasEnded(before);
         before = wiring_.listed[i].computation) {
      i = before;
    }
    return i;
  }

  // The reason for which the call or group at plan.actions[i] cannot go on, and the action behind
  // it.
  std::pair<Blocked::Why, std::optional<uint32_t>> ReasonOf(uint32_t i) const {
    const bool message = IsMessage(plan_.actions[i].kind);
    const Wire& wire = wiring_.wires[i];
    if (message && HasStarted(i)) return {Blocked::Why::kOtherEnd, wire.other};
    const uint32_t stands = FirstNotEnded(i);
    for (const ListedWait& wait : wiring_.WaitsBefore(stands)) {
      if (!HasEnded(wait.until)) return {Blocked::Why::kWait, wait.until};
    }
    if (stands != i) return {Blocked::Why::kComputation, stands};
    if (message) return {Blocked::Why::kQueue, HeadOf(static_cast<int>(wire.queue))};
    return {Blocked::Why::kNeeds, Lacking(i)};
  }

  // The receive of a value that the group at plan.actions[i] lacks.
  std::optional<uint32_t> Lacking(uint32_t i) const {
    const auto group = GroupAt(absl::MakeConstSpan(plan_.actions), i);
    for (uint32_t k = i; k < i + group.size(); ++k) {
      for (const uint32_t need : {wiring_.wires[k].input, wiring_.wires[k].gradient}) {
        if (need != kNoAction && !HasEnded(need)) return need;
      }
    }
    return std::nullopt;
  }

  const Plan& plan_;
  const Wiring& wiring_;
  const std::vector<Event>& events_;
};

// The end of everything listed before the message that holds it up.
int64_t IssuedNs(const Wiring& wiring, const Timeline& timeline, uint32_t message) {
  const uint32_t computation = wiring.listed[message].computation;
  int64_t issued_ns = computation == kNoAction ? 0 : timeline.events[computation].end_ns;
  for (const ListedWait& wait : wiring.WaitsBefore(message)) {
    issued_ns = std::max(issued_ns, timeline.events[wait.until].end_ns);
  }
  return issued_ns;
}

// The time at which the message left its queue.
int64_t LeftQueueNs(const Plan& plan, const Wiring& wiring, const Timeline& timeline,
                    const CostModel& costs, uint32_t message) {
  const uint32_t send = IsSend(plan.actions[message].kind) ? message : wiring.wires[message].other;
  return timeline.events[message].end_ns - HopOf(plan, costs, plan.actions[send]).latency_ns;
}

// The longest delay; the first of equals.
std::optional<HeldSend> WorstOf(const Plan& plan, const Wiring& wiring, const Timeline& timeline,
                                const CostModel& costs) {
  std::optional<HeldSend> worst;
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    const uint32_t before = wiring.wires[i].before;
    if (!IsSend(plan.actions[i].kind) || before == kNoAction) continue;
    if (!IsRecv(plan.actions[before].kind)) continue;
    const int64_t held_ns =
        LeftQueueNs(plan, wiring, timeline, costs, before) - IssuedNs(wiring, timeline, i);
    if (held_ns > (worst ? worst->held_ns : 0)) worst = HeldSend{i, before, held_ns};
  }
  return worst;
}

}  // namespace

std::vector<ListedWait> ListedWaits(const Plan& lowered, const std::vector<MessageWait>& waits) {
  using Key = std::tuple<ActionKind, StageId, MicrobatchId>;
  std::map<Key, uint32_t> places;
  for (uint32_t i = 0; i < lowered.actions.size(); ++i) {
    const Action& action = lowered.actions[i];
    places.try_emplace(Key(action.kind, action.stage, action.microbatch), i);
  }
  std::vector<ListedWait> listed;
  for (const MessageWait& wait : waits) {
    const auto place = places.find(Key(wait.of, wait.stage, wait.microbatch));
    if (place != places.end()) listed.push_back({wait.rank, wait.before, place->second});
  }
  return listed;
}

std::vector<Blocked> CycleOf(const Plan& lowered, const Wiring& wiring, const CostModel& costs) {
  const Timeline timeline = SimulateAsFarAsItGoes(lowered, wiring, costs);
  return StuckPlan(lowered, wiring, timeline).Cycle();
}

StreamRun RunOnStreams(const Plan& lowered, const std::vector<MessageWait>& waits,
                       const CostModel& costs, CommLayout layout) {
  const Wiring wiring =
      WiringAsWritten(lowered, layout, costs.receive_buffers, ListedWaits(lowered, waits));
  StreamRun run;
  const absl::StatusOr<Timeline> timeline = Simulate(lowered, wiring, costs);
  if (!timeline.ok()) {
    run.cycle = CycleOf(lowered, wiring, costs);
    return run;
  }
  run.ends = true;
  for (const Event& event : timeline->events) {
    run.makespan_ns = std::max(run.makespan_ns, event.end_ns);
  }
  run.worst = WorstOf(lowered, wiring, *timeline, costs);
  return run;
}

}  // namespace stringline
