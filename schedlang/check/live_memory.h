// The live memory of a rank along its list: stage activations, bytes, and receive buffers. Counted
// by the order of the list, so a bound for every run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan/plan.h"

namespace stringline {

// The largest number of stage activations that `rank` holds at once (+1 at F, -1 at B or W; the
// parts of a group count together), and the first action with that number.
struct PeakActivations {
  int count = 0;
  uint32_t action = 0;  // index into Plan::actions: the last part of the group
};
PeakActivations PeakActivationsOf(const Plan& plan, RankId rank);

// The most of any rank; of a plan with a window, in any order that can happen.
int MostActivationsOf(const Plan& plan);

// The peak in bytes by the order of the list: resident bytes, live values, and gathered parameters.
// A rank's allocation (MemoryPlan) is larger: temporaries, values that others may still read, and
// gaps between values.
struct PeakBytes {
  int64_t bytes = 0;
  uint32_t action = 0;
};
PeakBytes PeakBytesOf(const Plan& lowered, RankId rank, const std::vector<StageSizes>& bytes);

// The memory of every rank: the memory plan's; of a plan with rows (plan/rows.h), which nothing
// executes, the most bytes by the order of its lists, as in blocks without gaps. FailedPrecondition
// as PlanMemory.
absl::StatusOr<std::vector<RankMemory>> MemoryOfRanks(const Plan& lowered,
                                                      const std::vector<StageSizes>& bytes);

// True if the plan keeps something on hosts: it lists a D, or has own values there.
bool UsesHosts(const Plan& plan);

// The most bytes of copies on the rank's host by the order of the list, and the first F with which
// they need room: a copy has it from its F to its last W or B, as in the memory plan.
PeakBytes PeakOnHostOf(const Plan& plan, RankId rank, const std::vector<StageSizes>& bytes);

// By rank, the most receive buffers that it needs at once: a buffer is in use from the post of its
// receive to the release of its value; with a window, in any order that can happen.
std::vector<int> ReceiveBuffersOf(const Plan& lowered);

// Free bytes of a rank's block, while an action of it runs.
struct BlockGap {
  uint32_t action = 0;         // index into Plan::actions
  int64_t begin = 0, end = 0;  // offsets; equal: there is no gap
  std::string below, above;    // the values at both ends; "": an end of the block
};
// The largest gap between the values alive while action `last` of the rank's list runs, as `memory`
// lays them out. An end of the block may be an end of it.
BlockGap LargestGapOf(const Plan& lowered, RankId rank, uint32_t last,
                      const std::vector<StageSizes>& bytes, const MemoryPlan& memory);
// "2.00 MiB, from 3.00 MiB to 5.00 MiB of the block, above saved input of stage 1, microbatch 0,
// and below saved input of stage 2, microbatch 0"; "" of no gap.
std::string Describe(const BlockGap& gap);

// "stage 0: microbatches 0 .. 4, 7; stage 7: microbatch 2; gathered: stage 0, 7": the activations
// alive after action `last` of the rank's list, and the parameters.
std::string DescribeAlive(const Plan& plan, RankId rank, uint32_t last);
// "stage 0: microbatches 0 .. 4": the copies with room on the host after action `last`.
std::string DescribeOnHost(const Plan& plan, RankId rank, uint32_t last);

}  // namespace stringline
