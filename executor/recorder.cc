#include "executor/recorder.h"

#include <algorithm>

#include "executor/clock.h"
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

}  // namespace

Recorder::Recorder(const Plan& lowered)
    : start_ns_(lowered.actions.size(), 0), end_ns_(lowered.actions.size(), 0) {}

void Recorder::StartStep() { step_start_ns_ = NowNs(); }

Timeline Recorder::Measured(const Plan& lowered) const {
  Timeline timeline = TimelineOf(lowered, "measured");
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    timeline.events[i].start_ns = start_ns_[i] - step_start_ns_;
    timeline.events[i].end_ns = end_ns_[i] - step_start_ns_;
  }
  StartWhenReady(lowered, &timeline);

  // A message starts when the group that gave it has ended.
  const size_t values = lowered.stages.size() * lowered.microbatches;
  std::vector<int64_t> output_ns(values, 0);
  std::vector<int64_t> in_grad_ns(values, 0);
  auto index = [&](StageId stage, MicrobatchId microbatch) {
    return static_cast<size_t>(stage.value) * lowered.microbatches + microbatch.value;
  };
  for (const Event& event : timeline.events) {
    if (!IsCompute(event.kind)) continue;
    const Values gives = EffectsOf(event.kind).gives;
    if (gives & kOutput) output_ns[index(event.stage, event.microbatch)] = event.end_ns;
    if (gives & kInGrad) in_grad_ns[index(event.stage, event.microbatch)] = event.end_ns;
  }
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    Event& event = timeline.events[i];
    if (!IsMessage(event.kind)) continue;
    const StageId producer =
        IsSend(event.kind) ? event.stage : PeerStage(lowered, lowered.actions[i]);
    const bool gradient =
        event.kind == ActionKind::kSendBackward || event.kind == ActionKind::kRecvBackward;
    event.start_ns = (gradient ? in_grad_ns : output_ns)[index(producer, event.microbatch)];
    event.end_ns = std::max(event.end_ns, event.start_ns);
  }
  return timeline;
}

}  // namespace stringline
