// When each action of a traced plan happened, by its rank's own clock.
//
// On a GPU the host only launches: an action is what ran of all that its range launched, from the
// first start to the last end, whenever that was. A computation counts kernels and copies but not
// NCCL's kernels, which FSDP launches ahead; a message counts only those.
//
// Without a GPU the range is the action, but for what it waits. Torch waits within the range of an
// F, a B or an I for what it needs, until the gloo:recv ends that RECV_F or RECV_B has begun: then
// the action starts. A message leaves when it is given to torch.distributed, and has arrived when
// it was waited for, or before. What an `F a & B b` waits for its B is part of it.
#pragma once

#include <optional>
#include <vector>

#include "schedlang/trace/rank_trace.h"
#include "schedlang/trace/trace_steps.h"
#include "schedlang/trace/traced_plan.h"

namespace stringline {

struct TracedTimes {
  // By action, of a group's parts the same; nothing where the trace says nothing.
  std::vector<std::optional<TimeSpan>> spans;
  std::vector<char> on_device;  // by rank
};

TracedTimes TimesOf(const TracedPlan& traced, const std::vector<RankTrace>& traces,
                    const std::vector<TraceStep>& steps);

// All that a rank did in the step, for BusyTimesOf: of its GPU what was launched then; without one
// its computations, as given, and what gloo began then.
std::vector<DeviceSpan> WorkOf(const RankTrace& trace, const TraceStep& step, bool on_device,
                               const std::vector<TimeSpan>& computations);

}  // namespace stringline
