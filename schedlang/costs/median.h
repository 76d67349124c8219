// The median: as a typical duration it stays where it is when some durations are disturbed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace stringline {

// With an even count, the mean of the two values in the middle; 0 without values. The first takes
// sorted values.
inline int64_t MedianOfSorted(const std::vector<int64_t>& sorted) {
  return sorted.empty() ? 0 : (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}
inline int64_t MedianOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return MedianOfSorted(values);
}

}  // namespace stringline
