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

inline Vec Gate(Vec x) {
  const Vec u = kRoot * (x + kCubic * x * x * x);
  return 1.0f / (1.0f + Exp(-2.0f * u));
}

inline Vec Gelu(Vec x) { return x * Gate(x); }

// From 10 on the gate is 0 or 1 to the last bit, so the part that turns it need not grow on.
inline Vec GeluGrad(Vec dy, Vec x) {
  const Vec near = Min(Splat(10.0f), Max(Splat(-10.0f), x));
  const Vec s = Gate(near);
  const Vec slope = 2.0f * kRoot * (1.0f + 3.0f * kCubic * near * near);
  return dy * (s + near * s * (1.0f - s) * slope);
}

}  // namespace

// y = gelu(x)                                x, y of one shape, y overwritten
void Run_kGelu(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t count = in[0].type->elements(), whole = count / kLanes * kLanes;
  const float* x = in[0].f32();
  float* y = out[0].f32();
  for (int64_t i = 0; i < whole; i += kLanes) Store(y + i, Gelu(Load(x + i)));
  StorePart(y + whole, Gelu(LoadPart(x + whole, count - whole)), count - whole);
}

// dx = dy gelu'(x)                           all of one shape, dx overwritten
void Run_kGeluGrad(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t count = in[0].type->elements(), whole = count / kLanes * kLanes;
  const float* dy = in[0].f32();
  const float* x = in[1].f32();
  float* dx = out[0].f32();
  for (int64_t i = 0; i < whole; i += kLanes) {
    Store(dx + i, GeluGrad(Load(dy + i), Load(x + i)));
  }
  const int64_t rest = count - whole;
  StorePart(dx + whole, GeluGrad(LoadPart(dy + whole, rest), LoadPart(x + whole, rest)), rest);
}

}  // namespace stringline::cpu
