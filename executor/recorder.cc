#include "executor/recorder.h"

#include <algorithm>

namespace stringline {

Recorder::Recorder(const Plan& lowered) : times_(lowered.actions.size()) {}

Timeline Recorder::Observed(const Plan& lowered) const {
  Timeline timeline = TimelineOf(lowered, "measured");
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    Event& event = timeline.events[i];
    event.end_ns = times_[i].end_ns - step_start_ns_;
    event.start_ns = IsMessage(event.kind) || times_[i].start_ns == 0
                         ? event.end_ns
                         : times_[i].start_ns - step_start_ns_;
  }
  return timeline;
}

}  // namespace stringline
