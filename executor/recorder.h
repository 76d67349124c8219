// When every action of a step ran, as it was observed: the same Timeline that the simulator writes.
//
// Where ranks share processors, an observed time says when a processor was there for the work, and
// not only when the work could have begun; what_was_ready.h makes the one of the other.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/device.h"
#include "schedlang/plan.h"
#include "schedlang/timeline.h"

namespace stringline {

class Recorder {
 public:
  // Room for one step of the plan; each step overwrites the last.
  explicit Recorder(const Plan& lowered);

  // Right before the step is enqueued: times count from `now_ns` of the device's clock.
  void StartStep(int64_t now_ns) { step_start_ns_ = now_ns; }

  // Where the times of the computation or collective plan.actions[index] are written.
  WorkTimes* times(size_t index) { return &times_[index]; }
  // Of a message only the end is: the moment the bytes were there.
  int64_t* arrived_ns(size_t index) { return &times_[index].end_ns; }

  // The last step. A message has no length: it starts when it has arrived. So does a collective
  // that is nothing but calls.
  Timeline Observed(const Plan& lowered) const;

 private:
  int64_t step_start_ns_ = 0;
  std::vector<WorkTimes> times_;  // by action
};

}  // namespace stringline
