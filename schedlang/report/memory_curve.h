// A rank's memory over the time of a step: bytes by class where the costs know them, stage
// activations otherwise. Pure: a lowered plan, its timeline and the sizes -> a curve for each rank.
//
// A microbatch of a stage holds values saved for I from the start of its F to the end of its B or
// I, values saved for W until the end of its B or W, and the stash from the start of I to the end
// of W. A received value is held from when its message moves to the end of its consumer's group,
// a sent value from the start of its producer's group until its arrival. Parameters that are
// gathered are held from UNSHARD to RESHARD, gradients that are shared out later whole from the
// first weight gradient to the end of REDUCE_GRAD. Activations are counted as in the literature:
// from the start of F to the end of B or W, but not from the end of a D to the start of its U.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedlang/costs/costs.h"
#include "schedlang/memory/stage_sizes.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

// From `time_ns` on, until the next point, so much is held.
struct MemoryPoint {
  int64_t time_ns = 0;
  int64_t amount = 0;
};

// The sizes of stages in `memory` for a plan's memory (memory/memory_plan.h), which counts whole
// gradients from the start. Temporaries are the values that recomputing stages make again.
std::vector<StageSizes> SizesOfCosts(const Plan& plan, const std::vector<StageMemory>& memory);

struct MemoryCurve {
  std::vector<MemoryPoint> points;  // times rise
  int64_t peak = 0;
  int64_t peak_ns = 0;                               // the time when it is first reached
  std::array<int64_t, kMemoryClasses> at_peak = {};  // bytes by class; all 0 for activations
};

struct MemoryCurves {
  OwnRows rows;           // the plan's, for the names of classes
  bool in_bytes = false;  // otherwise stage activations
  std::vector<MemoryCurve> ranks;
  std::vector<MemoryCurve> hosts;  // by rank, its copies on the host; empty: there are none
};

// `sizes` by stage; empty: activations are counted. Cost: n log n in the actions of a rank.
MemoryCurves MemoryOver(const Plan& lowered, const Timeline& timeline,
                        const std::vector<StageMemory>& sizes);

// A rank that exceeds its capacity.
struct OverfullRank {
  int rank = 0;
  int64_t first_ns = 0;  // from when on, at the latest until the peak
  int64_t peak = 0;
  int64_t peak_ns = 0;
};
// `capacity` of every rank, in bytes; 0: not known. None for curves of activations.
std::vector<OverfullRank> FindOverfull(const MemoryCurves& curves, int64_t capacity);

}  // namespace stringline
