// When every action of a step ran: the same Timeline that the simulator writes, but measured.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/plan.h"
#include "schedlang/sim/wiring.h"
#include "schedlang/timeline.h"

namespace stringline {

class Recorder {
 public:
  // Room for one step of the plan; each step overwrites the last. `layout` is that in which its
  // messages go.
  explicit Recorder(const Plan& lowered, CommLayout layout = CommLayout::kEdge);

  // Right before the step is enqueued: times count from `now_ns` of the device's clock.
  void StartStep(int64_t now_ns) { step_start_ns_ = now_ns; }

  // Where the start and the end of plan.actions[index] are written. Of a message only the end is:
  // the moment the bytes were there.
  int64_t* start_ns(size_t index) { return &start_ns_[index]; }
  int64_t* end_ns(size_t index) { return &end_ns_[index]; }

  // The last step, as event timestamps on a GPU's streams would have it: a group starts when
  // nothing but the machine keeps it any more, that is when the rank's group before it has ended
  // and its messages are there, and ends with its last part. Where ranks share processors, waiting
  // for one is part of what an action takes. A message lasts from the moment when the group that
  // gave it has ended and so have the calls before it in the queues of both its ends.
  Timeline Measured(const Plan& lowered) const;

 private:
  int64_t step_start_ns_ = 0;
  std::vector<int64_t> start_ns_;
  std::vector<int64_t> end_ns_;
  const Wiring wiring_;
};

}  // namespace stringline
