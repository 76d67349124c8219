// Clocks of ranks, laid beside each other by what cannot be: no message arrives before it has left.
//
// A message from rank i that left at s by i's clock and was there at r by j's says that
//
//   offset(i) - offset(j) <= r - s
//
// where a rank's offset is added to its times. Messages in both directions so keep each offset
// within an interval, whose middle is right where the fastest messages take equally long both ways
// (Cristian 1989, Probabilistic clock synchronization). Ranks get the middle of what those before
// them leave, one after the other, rank 0 keeping its clock: so all bounds hold at once. Where
// messages go one way only, the offset is the least that breaks none.
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
  // How far it may be off, as far as the bounds say; nothing where they bound it on one side only.
  std::optional<int64_t> uncertainty_ns = 0;
};

struct AlignedClocks {
  std::vector<RankClock> ranks;
  int64_t broken_ns = 0;  // by how much some messages must arrive before they have left
};

// Bounds of at most 2^50 ns, fewer than 2^12 ranks. Which bounds contradict each other is not
// asked: all are loosened alike until they can hold. Cost: ranks times bounds, times how often a
// bound tightens others; for pipelines a few times.
AlignedClocks AlignClocks(int ranks, std::vector<ClockBound> bounds);

}  // namespace stringline
