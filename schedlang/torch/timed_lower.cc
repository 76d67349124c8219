#include "schedlang/torch/timed_lower.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "schedlang/lower/lower.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

CostModel WithoutZeros(CostModel costs) {
  for (auto* const of_stages : {&costs.forward, &costs.backward, &costs.input_gradient,
                                &costs.weight_gradient, &costs.forward_backward}) {
    for (int64_t& cost : *of_stages) cost = std::max<int64_t>(cost, 1);
  }
  costs.hop = std::max<int64_t>(costs.hop, 1);
  for (auto* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
    for (Hop& hop : *hops) {
      if (hop.all_ns() == 0) hop.latency_ns = 1;
    }
  }
  return costs;
}

// A send or a receive, by the time at which its message is ready. Both ends of a message have the
// same key.
struct TimedCall {
  int64_t ready_ns = 0;
  StageId sender;
  MicrobatchId microbatch;
  bool backward = false;
  uint32_t index = 0;  // into the actions; not part of the key

  auto Key() const { return std::tuple(ready_ns, sender, microbatch, backward); }
};

std::vector<TimedCall> CallsOf(const Plan& plan, const Timeline& timeline, int rank) {
  std::vector<TimedCall> calls;
  for (uint32_t i = plan.first[rank]; i < plan.first[rank + 1]; ++i) {
    const Action& action = plan.actions[i];
    if (!IsMessage(action.kind)) continue;
    const bool send = IsSend(action.kind);
    const bool backward =
        action.kind == ActionKind::kSendBackward || action.kind == ActionKind::kRecvBackward;
    calls.push_back({timeline.events[i].start_ns, send ? action.stage : PeerStage(plan, action),
                     action.microbatch, backward, i});
  }
  std::sort(calls.begin(), calls.end(),
            [](const TimedCall& a, const TimedCall& b) { return a.Key() < b.Key(); });
  return calls;
}

}  // namespace

std::optional<Plan> LowerByTime(const Plan& plan, const CostModel& costs) {
  const Plan early = Lower(plan);
  const absl::StatusOr<Timeline> timeline = Simulate(early, WithoutZeros(costs));
  if (!timeline.ok()) return std::nullopt;
  Plan timed = early;
  timed.actions.clear();
  for (int r = 0; r < early.ranks(); ++r) {
    const std::vector<TimedCall> calls = CallsOf(early, *timeline, r);
    size_t next = 0;
    for (uint32_t i = early.first[r]; i < early.first[r + 1]; ++i) {
      const Action& action = early.actions[i];
      if (IsMessage(action.kind)) continue;
      // Before a computation, the messages ready by its end; before a collective, by its time.
      const Event& event = timeline->events[i];
      const int64_t until_ns = IsCompute(action.kind) ? event.end_ns : event.end_ns + 1;
      for (; !action.joined && next < calls.size() && calls[next].ready_ns < until_ns; ++next) {
        timed.actions.push_back(early.actions[calls[next].index]);
      }
      timed.actions.push_back(action);
    }
    for (; next < calls.size(); ++next) timed.actions.push_back(early.actions[calls[next].index]);
    timed.first[r + 1] = static_cast<uint32_t>(timed.actions.size());
  }
  return timed;
}

}  // namespace stringline
