// Sixteen floats at once, whatever the width of the machine's registers: the compiler splits them.
//
// The order of every sum is fixed by these types and not by the register width, so that results
// differ between machines only through fusing of products and sums.
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

// N contiguous vectors, of which the last has `width` lanes.
template <int N>
inline void LoadAll(const float* p, int64_t width, Vec (&v)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    v[i] = i < N - 1 || width == kLanes ? Load(p + i * kLanes) : LoadPart(p + i * kLanes, width);
  }
}
template <int N>
inline void StoreAll(float* p, int64_t width, const Vec (&v)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    if (i < N - 1 || width == kLanes) {
      Store(p + i * kLanes, v[i]);
    } else {
      StorePart(p + i * kLanes, v[i], width);
    }
  }
}

// Calls body.operator()<N>(offset, width) for N vectors at a time, then for one at a time: `width`
// is 16 except for the last vector.
template <int N, typename Body>
inline void ForVectors(int64_t count, Body body) {
  int64_t at = 0;
  for (; at + N * kLanes <= count; at += N * kLanes) body.template operator()<N>(at, kLanes);
  for (; at < count; at += kLanes) {
    body.template operator()<1>(at, count - at < kLanes ? count - at : kLanes);
  }
}

inline Vec Splat(float x) { return Vec{} + x; }
// If `a` or `b` is NaN the result is `b`: data passed as `b` keep their NaN.
inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec Min(Vec a, Vec b) { return a < b ? a : b; }

// Lane i has lane from[i] of the concatenation of a and b.
inline Vec Shuffled(Vec a, Vec b, IntVec from) {
#ifdef __clang__
  // Clang has no shuffle by a vector; a constant `from` lets it make one of this loop.
  Vec shuffled = {};
  for (int i = 0; i < kLanes; ++i) {
    shuffled[i] = from[i] < kLanes ? a[from[i]] : b[from[i] - kLanes];
  }
  return shuffled;
#else
  return __builtin_shuffle(a, b, from);
#endif
}

// Lane i has lane i + `step` of v, cyclically.
template <int step>
inline Vec Turned(Vec v) {
  const IntVec lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Shuffled(v, v, (lane + step) & 15);
}

inline float Sum(Vec v) {
  v += Turned<8>(v);
  v += Turned<4>(v);
  v += Turned<2>(v);
  v += Turned<1>(v);
  return v[0];
}

inline float MaxOf(Vec v) {
  v = Max(v, Turned<8>(v));
  v = Max(v, Turned<4>(v));
  v = Max(v, Turned<2>(v));
  v = Max(v, Turned<1>(v));
  return v[0];
}

// p 2^n for a whole n in -150 .. 128: rounded once, to infinity or to a subnormal number if need
// be.
inline Vec TimesPowerOfTwo(Vec p, Vec n) {
#ifdef __AVX512F__
  return _mm512_maskz_scalef_ps(0xffff, p, n);  // g++ 12 warns of the unmasked intrinsic
#else
  const IntVec whole = __builtin_convertvector(n, IntVec), half = whole >> 1;
  const IntVec bits[2] = {(half + 127) << 23, (whole - half + 127) << 23};
  Vec power[2];
  std::memcpy(power, bits, sizeof bits);
  return p * power[0] * power[1];
#endif
}

// Every x becomes e^x, off by less than one unit in the last place: 0 below -104, infinity above
// 88.7, NaN for NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2. In the polynomial for e^r, 1 + r + r^2/2 are exact and the
// next four terms are the minimax fit over the range: off by 0.07 of a unit before rounding. Each
// step depends on the previous step, so the vectors take every step side by side.
template <int N>
inline void ExpAll(Vec (&x)[N]) {
  constexpr float kRound = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer
  constexpr float kTerms[] = {0.00836750865f, 0.0416672379f, 0.166665345f, 0.5f, 1.0f, 1.0f};
  Vec n[N], p[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = Min(Splat(89.0f), Max(Splat(-104.0f), x[i]));
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) n[i] = x[i] * 1.44269504f + kRound;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) n[i] -= kRound;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] -= n[i] * 0.693359375f;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] += n[i] * 2.12194440e-4f;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) p[i] = Splat(0.00138637435f);
#pragma GCC unroll 8
  for (float term : kTerms) {
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) p[i] = p[i] * x[i] + term;
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = TimesPowerOfTwo(p[i], n[i]);
}

inline Vec Exp(Vec x) {
  Vec one[1] = {x};
  ExpAll(one);
  return one[0];
}

}  // namespace stringline::cpu
