// Aligns the clocks of ranks by causality: no message arrives before it has left.
//
// A message that left rank i at time s of i's clock and arrived at rank j at time r of j's implies
//
//   offset(i) - offset(j) <= r - s
//
// where a rank's offset is added to its times. Messages in both directions confine each offset to
// an interval, whose middle is right if the fastest messages take equally long both ways (Cristian
// 1989, Probabilistic clock synchronization). Ranks in turn get the middle of the interval that
// earlier ranks leave, rank 0 keeping its clock: so all bounds hold at once. With messages in one
// direction only, the offset is the least that satisfies the bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace stringline {

// offset(from) - offset(to) <= ns.
struct ClockBound {
  int from = 0;
  int to = 0;
  int64_t ns = 0;
};

struct RankClock {
  int64_t offset_ns = 0;
  // The most by which the offset may be wrong; nothing if it is bounded on one side only.
  std::optional<int64_t> uncertainty_ns = 0;
};

struct AlignedClocks {
  std::vector<RankClock> ranks;
  int64_t broken_ns = 0;  // the overlap by which some messages must arrive before they leave
};

// Bounds of at most 2^50 ns, fewer than 2^12 ranks. Contradictory bounds are not singled out: all
// are loosened alike until they can hold. Cost: ranks times bounds, times the number of times a
// bound tightens others; for pipelines a few.
AlignedClocks AlignClocks(int ranks, std::vector<ClockBound> bounds);

}  // namespace stringline
