// Ranks for which the others wait: get_potential_stragglers.
//
// Collectives end together, so the rank that begins one last delays all. Of every step, rank,
// stream and name the last communication kernel counts that takes at least 1 % of a mean step. The
// stream and name whose lengths differ most between ranks decide (the standard deviation, averaged
// over steps); in each step the two ranks that begin it last are counted.
//
// Departures from Holistic Trace Analysis: it knows communication kernels of old NCCL only
// (ncclKernel…), leaves out step 0, and fails where fewer than two ranks have the kernel.
#pragma once

#include <string>
#include <vector>

#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

struct RankStart {
  int rank = 0;
  int late = 0;            // the steps in which it is among the last two
  double start_share = 0;  // from the first event to the kernel's start, in mean steps; the mean
};

struct Stragglers {
  std::string kernel;  // "" if no communication kernel is that long on two ranks
  int stream = 0;
  int steps = 0;                 // with that kernel
  std::vector<RankStart> ranks;  // late most often first, then by the mean start, the last first
};

// Times are those of the traces' own clocks. Traces without steps count as one step.
Stragglers StragglersOf(const std::vector<KernelTrace>& traces);

}  // namespace stringline
