#include "executor/recorder.h"

#include <algorithm>

#include "executor/clock.h"
#include "schedlang/channels.h"
#include "schedlang/effects.h"

namespace stringline {
namespace {

void SpreadOverGroups(Timeline* timeline) {
  std::vector<Event>& events = timeline->events;
  for (size_t begin = 0; begin < events.size();) {
    size_t end = begin + 1;
    while (end < events.size() && events[end].joined) ++end;
    int64_t start_ns = events[begin].start_ns;
    int64_t end_ns = events[begin].end_ns;
    for (size_t i = begin; i < end; ++i) {
      start_ns = std::min(start_ns, events[i].start_ns);
      end_ns = std::max(end_ns, events[i].end_ns);
    }
    for (size_t i = begin; i < end; ++i) {
      events[i].start_ns = start_ns;
      events[i].end_ns = end_ns;
    }
    begin = end;
  }
}

}  // namespace

Recorder::Recorder(const Plan& lowered)
    : start_ns_(lowered.actions.size(), 0), end_ns_(lowered.actions.size(), 0) {}

void Recorder::StartStep() { step_start_ns_ = NowNs(); }

Timeline Recorder::Measured(const Plan& lowered) const {
  Timeline timeline;
  timeline.origin = "measured";
  timeline.schedule = lowered.schedule;
  timeline.parameters = lowered.parameters;
  timeline.first = lowered.first;
  timeline.events.resize(lowered.actions.size());
  for (size_t i = 0; i < lowered.actions.size(); ++i) {
    const Action& action = lowered.actions[i];
    timeline.events[i] = {action.kind,
                          action.joined,
                          action.stage,
                          action.microbatch,
                          start_ns_[i] - step_start_ns_,
                          end_ns_[i] - step_start_ns_};
  }
  SpreadOverGroups(&timeline);

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
    if (IsCompute(event.kind)) continue;
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
