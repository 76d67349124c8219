// Traces as Kineto writes them, of steps whose truth is known: a timeline, performed on GPUs.
//
// The host runs ahead: it launches a whole step at once, backwards from autograd's thread, all but
// the last computation, which it launches just before its start; these records do not tell the time
// of execution. A computation is an operator that launches a kernel, a copy, a fill and a kernel on
// one stream, with a short gap, and changes the memory in use; a message a kernel of NCCL's on each
// side, on a stream for each edge, of which the receiver's waits since its stream was free. A
// reduction that all ranks end together ends the step, and the host waits for the stream.
#pragma once

#include <string>
#include <vector>

#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

struct WrittenClock {
  std::string host;
  int64_t ahead_ns = 0;  // of the truth
};

// The trace of a rank. `steps` are timelines of the plan, one after the other, called
// ProfilerStep#1 and so on. Times are whole microseconds if the timelines' times and the clock are.
std::string WrittenTrace(const Plan& plan, const std::vector<Timeline>& steps, RankId rank,
                         const WrittenClock& clock);

// "PP:" and torch's name for the group that begins at actions[index].
std::string RangeName(const Plan& plan, uint32_t index);

}  // namespace stringline
