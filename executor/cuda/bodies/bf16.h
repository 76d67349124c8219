// Half of a float's bits: sign, eight bits of exponent, seven of the fraction.
//
// Same memory format and rounding as __nv_bfloat16, without its header, which takes longer to
// compile than all bodies.
#pragma once

#include <cstdint>
#include <cstring>

#include "executor/cuda/bodies/block.h"

namespace stringline::cuda {

struct Bf16 {
  uint16_t bits;
};
static_assert(sizeof(Bf16) == 2);

#ifdef __CUDACC__

STRINGLINE_BODY float ToFloat(Bf16 value) { return __uint_as_float(uint32_t{value.bits} << 16); }
STRINGLINE_BODY Bf16 ToBf16(float value) {
  Bf16 rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(value));
  return rounded;
}

#else

inline float ToFloat(Bf16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}

// Rounds to nearest, ties to even; overflow becomes infinity, NaN stays NaN.
inline Bf16 ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  bits += 0x7fffu + (bits >> 16 & 1u);
  return {static_cast<uint16_t>(bits >> 16)};
}

#endif

STRINGLINE_BODY float ToFloat(float value) { return value; }

}  // namespace stringline::cuda
