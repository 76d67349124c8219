// Beam searches for a packing (packing.h) into a given number of bytes. A step places one value in
// each of the partial packings that are kept, and the best of what comes of them are kept.
//
// SweepInto places values in an order along the time: a partial packing is the row of values alive
// then. StackInto places them from the bottom of the block upwards, over the whole time: a partial
// packing is a skyline. Each finds packings that the other does not. Both are deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace stringline {

// A value, and the moments from..to at which it may be alive, by the order of its rank's groups.
// Values that conflict have a moment in common; those with one in common need not conflict.
struct PackedValue {
  int64_t bytes = 0;
  int from = 0, to = 0;
};

// Places values in this order, each at an end of a gap between those placed before with which it
// conflicts (`conflicts`: by value). Keeps `width` rows. False if no row leads to the last value.
// Looks at values are taken off `looks`; below 0 the search ends without a packing.
bool SweepInto(absl::Span<const PackedValue> values, const std::vector<std::vector<int>>& conflicts,
               const std::vector<int>& order, int64_t target, int width,
               std::vector<int64_t>* offsets, int64_t* looks);

// Keeps `width` skylines, and puts a value where one is lowest. Values with a moment in common do
// not share bytes. `wide`: prefers values that live long. False as above.
bool StackInto(absl::Span<const PackedValue> values, int64_t target, int width, bool wide,
               std::vector<int64_t>* offsets, int64_t* looks);

}  // namespace stringline
