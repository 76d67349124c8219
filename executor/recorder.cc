#include "executor/recorder.h"

#include <algorithm>

#include "schedlang/effects.h"
#include "schedlang/messages/channels.h"

namespace stringline {
namespace {

// Gives every part of a group the moment when the group could start, and the end of its last part.
// Events come with the times at which their work really ran.
void StartWhenReady(const Plan& plan, Timeline* timeline) {
  std::vector<Event>& events = timeline->events;
  const size_t values = plan.stages.size() * static_cast<size_t>(plan.microbatches);
  std::vector<int64_t> input_ns(values, 0), out_grad_ns(values, 0);
  auto index = [&](const Event& event) {
    return static_cast<size_t>(event.stage.value) * plan.microbatches + event.microbatch.value;
  };
  for (const Event& event : events) {
    if (event.kind == ActionKind::kRecvForward) input_ns[index(event)] = event.end_ns;
    if (event.kind == ActionKind::kRecvBackward) out_grad_ns[index(event)] = event.end_ns;
  }
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    int64_t ready_ns = 0;  // the end of the group before
    for (size_t begin = plan.first[rank]; begin < plan.first[rank + 1];) {
      const size_t end = begin + GroupAt(plan.actions, begin).size();
      if (!IsCompute(events[begin].kind)) {
        if (IsCollective(events[begin].kind)) {
          events[begin].start_ns = events[begin].end_ns = ready_ns;
        }
        begin = end;
        continue;
      }
      int64_t start_ns = ready_ns, end_ns = 0;
      for (size_t i = begin; i < end; ++i) {
        const Values needs = EffectsOf(events[i].kind).needs;
        if (needs & kInput) start_ns = std::max(start_ns, input_ns[index(events[i])]);
        if (needs & kOutGrad) start_ns = std::max(start_ns, out_grad_ns[index(events[i])]);
        end_ns = std::max(end_ns, events[i].end_ns);
      }
      for (; begin < end; ++begin) {
        events[begin].start_ns = start_ns;
        events[begin].end_ns = end_ns;
      }
      ready_ns = end_ns;
    }
  }
}

// When the queue of a message was free for it: by action, the end of the call before.
std::vector<int64_t> QueuesFree(const std::vector<Event>& events, const Wiring& wiring) {
  std::vector<int64_t> free_ns(events.size(), 0);
  for (size_t q = 0; q + 1 < wiring.first_call.size(); ++q) {
    int64_t call_ns = 0, end_ns = 0;  // when this call could begin; when it ended
    uint32_t before = kNoAction;
    for (const uint32_t i : wiring.of(static_cast<int>(q))) {
      if (wiring.wires[i].before != before) call_ns = end_ns;
      before = wiring.wires[i].before;
      free_ns[i] = call_ns;
      end_ns = std::max(end_ns, events[i].end_ns);
    }
  }
  return free_ns;
}

}  // namespace

Recorder::Recorder(const Plan& lowered, CommLayout layout)
    : start_ns_(lowered.actions.size(), 0),
      end_ns_(lowered.actions.size(), 0),
      wiring_(WiringOf(lowered, layout)) {}

Timeline Recorder::Measured(const Plan& lowered) const {
  Timeline timeline = TimelineOf(lowered, "measured");
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    timeline.events[i].start_ns = start_ns_[i] - step_start_ns_;
    timeline.events[i].end_ns = end_ns_[i] - step_start_ns_;
  }
  StartWhenReady(lowered, &timeline);
  timeline.layout = wiring_.layout;

  const std::vector<int64_t> free_ns = QueuesFree(timeline.events, wiring_);
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    if (!IsSend(timeline.events[i].kind)) continue;
    Event& send = timeline.events[i];
    const uint32_t maker = wiring_.wires[i].maker, other = wiring_.wires[i].other;
    if (maker == kNoAction || other == kNoAction) continue;  // the interpreter takes no such plan
    Event& recv = timeline.events[other];
    send.start_ns = std::max({timeline.events[maker].end_ns, free_ns[i], free_ns[other]});
    send.end_ns = std::max(send.end_ns, send.start_ns);
    recv.start_ns = send.start_ns;
    recv.end_ns = std::max(recv.end_ns, recv.start_ns);
  }
  return timeline;
}

}  // namespace stringline
