// Sixteen floats at once, whatever the machine's registers are: the compiler cuts them to size.
//
// The order of every sum is fixed by these types and not by the register width, so that results
// differ between machines at most by whether products and sums are fused.
#pragma once

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

// e^x to about one unit in the last place; x is kept within -87 .. 88, where the result is a normal
// number.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r is a Taylor polynomial, 2^n goes into the exponent bits.
inline Vec Exp(Vec x) {
  x = Min(Max(x, Splat(-87.0f)), Splat(88.0f));
  const Vec round = Splat(12582912.0f);  // 1.5 2^23: adding it rounds to an integer
  const Vec n = (x * 1.44269504f + round) - round;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec p = Splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntVec exponent = (__builtin_convertvector(n, IntVec) + 127) << 23;
  Vec power;
  std::memcpy(&power, &exponent, sizeof power);
  return p * power;
}

}  // namespace stringline::cpu
