// The slots of a timetable for given words: the m-th occurrence of a sign at period * m + offset.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/write/rank_expression.h"

namespace stringline::search {

struct SlotOffsets {
  int64_t period = 0;
  // By rank and sign. Empty if `lines` are used.
  std::vector<std::vector<int64_t>> by_rank;
  std::vector<Affine> lines;  // by sign
};

// Nonnegative offsets, if any exist for a period up to twice the signs of a rank. With `as_lines`,
// offsets linear in the rank. Every rank has every sign 0 .. signs - 1 equally often. Difference
// constraints: a sign directly behind another has the later slot.
std::optional<SlotOffsets> SlotOffsetsOf(absl::Span<const std::vector<int>> words, int signs,
                                         bool as_lines);

}  // namespace stringline::search
