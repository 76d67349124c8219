// Offsets in one block of memory for buffers with known lifetimes: the temporaries of a program.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace stringline {

inline constexpr int64_t kBufferAlignment = 64;

constexpr int64_t AlignUp(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// A buffer that is needed from step `first` to step `last`, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
  int64_t bytes = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  // by buffer, aligned
  int64_t bytes = 0;             // of the whole block
};

// Two buffers share bytes only when their lifetimes do not touch. The largest buffers are placed
// first, each into the tightest gap that takes it.
Placement PlaceByLifetime(absl::Span<const Lifetime> buffers);

}  // namespace stringline
