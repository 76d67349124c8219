// Offsets in one block of memory for buffers with known lifetimes: the temporaries of a program.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/base/align.h"

namespace stringline {

// A buffer that is live from step `first` to step `last`, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
  int64_t bytes = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  // by buffer, aligned
  int64_t bytes = 0;             // the whole block's
};

// Two buffers share bytes only if their lifetimes are disjoint. The largest buffers are placed
// first, each into the tightest gap that fits.
Placement PlaceByLifetime(absl::Span<const Lifetime> buffers);

}  // namespace stringline
