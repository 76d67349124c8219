// What a rank's memory holds while it goes through its list: stage activations, bytes, and receive
// buffers. By the order of the list, so a bound for every run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan.h"

namespace stringline {

// The largest number of stage activations that `rank` holds at once (+1 at F, -1 at B or W; the
// parts of a group count together), and the first action at which it does.
struct PeakActivations {
  int count = 0;
  uint32_t action = 0;  // index into Plan::actions: the last part of the group
};
PeakActivations PeakActivationsOf(const Plan& plan, RankId rank);

// The most of any rank.
int MostActivationsOf(const Plan& plan);

// The same in bytes: the resident ones, the values that are alive, and parameters that are
// gathered, by the order of the list.
// What a rank allocates (MemoryPlan) is more: temporaries, values that others may still read, bytes
// that no value fits.
struct PeakBytes {
  int64_t bytes = 0;
  uint32_t action = 0;
};
PeakBytes PeakBytesOf(const Plan& lowered, RankId rank, const std::vector<StageSizes>& bytes);

// The most messages that the rank has posted receives for and not yet used up: the size of the
// pool its receive buffers come from.
int ReceiveBuffersOf(const Plan& lowered, RankId rank);

// "stage 0: microbatches 0 .. 4, 7; stage 7: microbatch 2; gathered: stage 0, 7": the activations
// alive after action `last` of the rank's list, and the parameters.
std::string DescribeAlive(const Plan& plan, RankId rank, uint32_t last);

}  // namespace stringline
