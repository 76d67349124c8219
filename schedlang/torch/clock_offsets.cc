#include "schedlang/torch/clock_offsets.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace stringline {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max() / 4;

struct OffsetRange {
  int64_t low_ns = -kUnbounded;
  int64_t high_ns = kUnbounded;
  bool is_bounded() const { return low_ns > -kUnbounded && high_ns < kUnbounded; }
};

// True if offsets within all bounds exist (Bellman and Ford's algorithm, from all ranks at once).
bool CanHold(int ranks, const std::vector<ClockBound>& bounds) {
  std::vector<int64_t> offsets_ns(ranks, 0);
  for (int pass = 0; pass <= ranks; ++pass) {
    bool changed = false;
    for (const ClockBound& bound : bounds) {
      const int64_t high_ns = offsets_ns[bound.to] + bound.ns;
      changed = changed || high_ns < offsets_ns[bound.from];
      offsets_ns[bound.from] = std::min(offsets_ns[bound.from], high_ns);
    }
    if (!changed) return true;
  }
  return false;
}

// The ranges that feasible bounds leave to every rank while rank 0 stays at 0.
std::vector<OffsetRange> RangesWithin(int ranks, const std::vector<ClockBound>& bounds) {
  std::vector<OffsetRange> ranges(ranks);
  ranges[0] = {0, 0};
  for (bool changed = true; changed;) {
    changed = false;
    for (const ClockBound& bound : bounds) {
      OffsetRange& from = ranges[bound.from];
      OffsetRange& to = ranges[bound.to];
      if (to.high_ns < kUnbounded && to.high_ns + bound.ns < from.high_ns) {
        from.high_ns = to.high_ns + bound.ns;
        changed = true;
      }
      if (from.low_ns > -kUnbounded && from.low_ns - bound.ns > to.low_ns) {
        to.low_ns = from.low_ns - bound.ns;
        changed = true;
      }
    }
  }
  return ranges;
}

}  // namespace

AlignedClocks AlignClocks(int ranks, std::vector<ClockBound> bounds) {
  AlignedClocks aligned;
  aligned.ranks.resize(ranks);
  while (!CanHold(ranks, bounds)) {
    const int64_t more_ns = std::max<int64_t>(aligned.broken_ns, 1000);
    for (ClockBound& bound : bounds) bound.ns += more_ns;
    aligned.broken_ns += more_ns;
  }
  std::vector<OffsetRange> ranges = RangesWithin(ranks, bounds);
  for (int rank = 1; rank < ranks; ++rank) {
    const OffsetRange& range = ranges[rank];
    std::optional<int64_t>& uncertainty_ns = aligned.ranks[rank].uncertainty_ns;
    uncertainty_ns.reset();
    if (range.is_bounded()) uncertainty_ns = (range.high_ns - range.low_ns + 1) / 2;
  }
  for (int rank = 1; rank < ranks; ++rank) {
    const OffsetRange range = ranges[rank];
    int64_t& offset_ns = aligned.ranks[rank].offset_ns;
    offset_ns = range.is_bounded() ? range.low_ns + (range.high_ns - range.low_ns) / 2
                                   : std::clamp<int64_t>(0, range.low_ns, range.high_ns);
    bounds.push_back({rank, 0, offset_ns});
    bounds.push_back({0, rank, -offset_ns});
    ranges = RangesWithin(ranks, bounds);
  }
  return aligned;
}

}  // namespace stringline
