#include "executor/engine/placement.h"

#include <algorithm>
#include <numeric>

namespace stringline {
namespace {

// The start of the smallest gap of at least `bytes` between `taken` ranges (sorted by offset), or
// the end of the last range.
int64_t TightestGap(const std::vector<std::pair<int64_t, int64_t>>& taken, int64_t bytes) {
  int64_t end = 0;
  int64_t best = -1;
  int64_t best_size = 0;
  for (const auto& [from, to] : taken) {
    const int64_t gap = from - end;
    if (gap >= bytes && (best < 0 || gap < best_size)) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, to);
  }
  return best < 0 ? end : best;
}

}  // namespace

Placement PlaceByLifetime(absl::Span<const Lifetime> buffers) {
  Placement placement;
  placement.offsets.assign(buffers.size(), 0);
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  int last = -1;
  for (const Lifetime& buffer : buffers) last = std::max(last, buffer.last);
  // By step: the placed buffers alive then. Most buffers live for a few steps only.
  std::vector<std::vector<size_t>> alive(last + 1);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (size_t i : order) {
    taken.clear();
    for (int step = buffers[i].first; step <= buffers[i].last; ++step) {
      for (size_t j : alive[step]) {
        taken.emplace_back(placement.offsets[j], placement.offsets[j] + AlignUp(buffers[j].bytes));
      }
      alive[step].push_back(i);
    }
    std::sort(taken.begin(), taken.end());
    taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
    placement.offsets[i] = TightestGap(taken, AlignUp(buffers[i].bytes));
    placement.bytes = std::max(placement.bytes, placement.offsets[i] + AlignUp(buffers[i].bytes));
  }
  return placement;
}

}  // namespace stringline
