// Sixteen floats at once, whatever the machine's registers are: the compiler cuts them to size.
//
// The order of every sum is fixed by these types and not by the register width, so that results
// differ between machines at most by whether products and sums are fused.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

namespace stringline::cpu {

using Vec = float __attribute__((vector_size(64)));
using IntVec = int32_t __attribute__((vector_size(64)));
constexpr int64_t kLanes = 16;

constexpr int64_t RoundUp(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

inline Vec Load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void Store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

// The first n (0 .. 16) lanes; the others are 0.
inline Vec LoadPart(const float* p, int64_t n) {
  Vec v = {};
  std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(float));
  return v;
}
inline void StorePart(float* p, Vec v, int64_t n) {
  std::memcpy(p, &v, static_cast<size_t>(n) * sizeof(float));
}

inline Vec Splat(float x) { return Vec{} + x; }
// Where `a` or `b` is NaN the result is `b`: NaN in the data stays if the data stands there.
inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec Min(Vec a, Vec b) { return a < b ? a : b; }

inline float Sum(Vec v) {
  float lanes[kLanes];
  Store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

inline float MaxOf(Vec v) {
  float lanes[kLanes];
  Store(lanes, v);
  float best = lanes[0];
  for (float lane : lanes) best = lane > best ? lane : best;
  return best;
}

// p 2^n for a whole n in -150 .. 128: rounded once, to infinity or to a subnormal number if need
// be.
inline Vec TimesPowerOfTwo(Vec p, Vec n) {
#ifdef __AVX512F__
  return _mm512_maskz_scalef_ps(0xffff, p, n);  // g++ 12 warns of the plain one
#else
  const IntVec whole = __builtin_convertvector(n, IntVec), half = whole >> 1;
  const IntVec bits[2] = {(half + 127) << 23, (whole - half + 127) << 23};
  Vec power[2];
  std::memcpy(power, bits, sizeof bits);
  return p * power[0] * power[1];
#endif
}

// e^x, off by less than one unit in the last place: 0 below -104, infinity above 88.7, NaN for NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2. Of e^r, 1 + r + r^2/2 are exact and the next four terms are
// the polynomial that is nearest over that range: off by 0.07 of a unit before rounding.
inline Vec Exp(Vec x) {
  x = Min(Splat(89.0f), Max(Splat(-104.0f), x));
  const Vec round = Splat(12582912.0f);  // 1.5 2^23: adding it rounds to an integer
  const Vec n = (x * 1.44269504f + round) - round;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec p = Splat(0.00138637435f);
  p = p * r + 0.00836750865f;
  p = p * r + 0.0416672379f;
  p = p * r + 0.166665345f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return TimesPowerOfTwo(p, n);
}

}  // namespace stringline::cpu
