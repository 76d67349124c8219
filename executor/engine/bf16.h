// Numbers as BF16 on the host: half of a float's bits (sign, eight bits of exponent, seven of the
// fraction).
#pragma once

#include <cstdint>
#include <cstring>

namespace stringline {

inline float FromBf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Rounds to nearest, ties to even; overflow becomes infinity, NaN stays NaN. Free of branches, so
// that loops are vectorised.
inline uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? 0x7fffu : rounded);
}

// Arrays of `count` numbers, which do not overlap.
inline void FromBf16(const uint16_t* __restrict from, int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = FromBf16(from[i]);
}
inline void ToBf16(const float* __restrict from, int64_t count, uint16_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ToBf16(from[i]);
}

}  // namespace stringline
