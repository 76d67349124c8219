// Buffers begin at multiples of kBufferAlignment bytes.
#pragma once

#include <cstdint>

namespace stringline {

inline constexpr int64_t kBufferAlignment = 64;

constexpr int64_t AlignUp(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace stringline
