// The time of each action of a traced plan, by its rank's own clock.
//
// On a GPU the host only launches: an action is all work launched in its range, from the first
// start to the last end, whenever it ran. A computation counts kernels and copies but not NCCL's
// kernels, which FSDP launches ahead; a message counts only those. Torch's 1F1B joins a send with a
// receive, and launches one kernel for both: of actions that find_actions.h has found, a message
// without a kernel shares that of the next message.
//
// Without a GPU the range is the action, except its waits. Torch waits for inputs within the range
// of an F, a B or an I, until the end of the gloo:recv begun by RECV_F or RECV_B: then the action
// starts. A message leaves when it is given to torch.distributed, and arrives at the end of the
// wait for it, or before. For an `F a & B b` the wait for the B's input is part of the action. A
// computation that find_actions.h has found has no wait within.
#pragma once

#include <optional>
#include <vector>

#include "schedlang/torch/rank_trace.h"
#include "schedlang/torch/trace_steps.h"
#include "schedlang/torch/traced_plan.h"

namespace stringline {

struct TracedTimes {
  // By action, equal for all parts of a group; nothing if the trace has no time.
  std::vector<std::optional<TimeSpan>> spans;
  std::vector<int64_t> waits_from_ns;  // by action, when the host began to wait for its input
  std::vector<char> on_device;         // by rank
};

TracedTimes TimesOf(const TracedPlan& traced, const std::vector<RankTrace>& traces,
                    const std::vector<TraceStep>& steps);

// All work of a rank in the step, for BusyTimesOf: of its GPU the work launched in the step;
// without a GPU the given computations, and all that gloo began in the step.
std::vector<DeviceSpan> WorkOf(const RankTrace& trace, const TraceStep& step, bool on_device,
                               const std::vector<TimeSpan>& computations);

}  // namespace stringline
