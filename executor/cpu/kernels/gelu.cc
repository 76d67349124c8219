// GELU in its tanh form. With u = sqrt(2/pi) (x + 0.044715 x^3) and s = 1 / (1 + e^(-2u)):
//
//   x / 2 (1 + tanh u) = x s          its derivative: s + x s (1 - s) 2 u'
#include <algorithm>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {
namespace {

constexpr float kRoot = 0.7978845608f;  // sqrt(2/pi)
constexpr float kCubic = 0.044715f;

// e^(-2u) of every x, and the gate s.
template <int N>
inline void Gates(const Vec (&x)[N], Vec (&e)[N], Vec (&s)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) e[i] = x[i] * (-2.0f * kRoot - 2.0f * kRoot * kCubic * (x[i] * x[i]));
  ExpAll(e);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) s[i] = 1.0f / (1.0f + e[i]);
}

template <int N>
inline void Gelu(Vec (&x)[N]) {
  Vec e[N], s[N];
  Gates(x, e, s);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] *= s[i];
}

// x becomes dy gelu'(x). 1 - s is computed as e^(-2u) s, exact also for s near 1. Beyond |x| = 10
// the gate is 0 or 1 to the last bit, so x is clamped.
template <int N>
inline void GeluGrad(const Vec (&dy)[N], Vec (&x)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = Min(Splat(10.0f), Max(Splat(-10.0f), x[i]));
  Vec e[N], s[N];
  Gates(x, e, s);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    const Vec turn = x[i] * (2.0f * kRoot + 6.0f * kRoot * kCubic * (x[i] * x[i]));
    x[i] = dy[i] * s[i] * (1.0f + turn * (e[i] * s[i]));
  }
}

}  // namespace

// y = gelu(x)                                x, y of one shape, y overwritten
void Run_kGelu(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t count = in[0].type->elements();
  const float* x = in[0].f32();
  float* y = out[0].f32();
  ForVectors<4>(count, [&]<int N>(int64_t at, int64_t width) {
    Vec v[N];
    LoadAll(x + at, width, v);
    Gelu(v);
    StoreAll(y + at, width, v);
  });
}

// dx = dy gelu'(x)                           all of one shape, dx overwritten
void Run_kGeluGrad(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t count = in[0].type->elements();
  const float* dy = in[0].f32();
  const float* x = in[1].f32();
  float* dx = out[0].f32();
  ForVectors<4>(count, [&]<int N>(int64_t at, int64_t width) {
    Vec d[N], v[N];
    LoadAll(dy + at, width, d);
    LoadAll(x + at, width, v);
    GeluGrad(d, v);
    StoreAll(dx + at, width, v);
  });
}

}  // namespace stringline::cpu
