// Offsets for values whose births and deaths are all known, so that the block of their rank is as
// small as can be found: dynamic storage allocation.
//
// Two values may share bytes if one is known to be dead at the birth of the other. A set of values
// of which no two may is a lower bound; the largest of those that are alive at some birth is taken.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/memory/slots.h"

namespace stringline {

struct ValueLife {
  int64_t bytes = 0;
  int clock = 0;  // index of the clock of its birth
  Moment death;
};

struct Packing {
  std::vector<int64_t> offsets;  // by value
  int64_t bytes = 0;             // the block's size
  int64_t alive = 0;             // the most bytes alive at once: no block is smaller
};

// A packing no larger than `known`, which is one of these values. Values are in the order of their
// births, as far as these have one. Deterministic: all processes of a run find the same one.
//
// Values are placed one after the other, each into the lowest gap that is large enough, in several
// orders. Of a few values all packings are tried, which finds the best one. For more, beam searches
// look for packings into fewer bytes (beams.h); then the value at the block's end goes to other
// places of the order, again and again; then those of not too many are put into a smaller block,
// overlap there, and are moved until none does. Cost: quadratic in values, and a constant for the
// trials, which end with a packing into the bytes alive. The first packing of at most `enough`
// bytes ends the trials, and they do not begin where more than that is alive; -1: the smallest is
// wanted.
Packing PackValues(absl::Span<const ValueLife> values, absl::Span<const Clock> clocks,
                   Packing known, int64_t enough = -1);

}  // namespace stringline
