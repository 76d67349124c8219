// The experts' activation, with the router's weight applied in it:
//
//   y = silu(g) u w        silu(g) = g s, s = 1 / (1 + e^-g); its derivative: s (1 + g (1 - s))
#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/logistic.h"
#include "executor/cpu/kernels/vec.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cpu {
namespace {

int64_t RowsThatCame(const Tensor& received, int64_t most) {
  int64_t rows = 0;
  for (int64_t i = 0; i < received.type->elements(); ++i) rows += received.i32()[i];
  SL_CHECK(rows >= 0 && rows <= most) << rows << " rows of " << most;
  return rows;
}

}  // namespace

// y[r,f] = silu(gate[r,f]) up[r,f] weight[r]
//
// gate and up side by side (R,2F), weight (R), received I32 (X,e) -> y (R,F), overwritten where
// there are rows.
void Run_kExpertSwiglu(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t width = RowLength(out[0]), rows = RowsThatCame(in[2], in[0].type->shape[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = in[0].f32() + 2 * r * width;
    const float* up = gate + width;
    float* y = out[0].f32() + r * width;
    const float weight = in[1].f32()[r];
    ForVectors<4>(width, [&]<int N>(int64_t at, int64_t count) {
      Vec g[N], u[N], e[N], s[N];
      LoadAll(gate + at, count, g);
      LoadAll(up + at, count, u);
      Logistic(g, e, s);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) u[i] *= g[i] * s[i] * weight;
      StoreAll(y + at, count, u);
    });
  }
}

// dgate = dy up weight s (1 + gate (1 - s)),  dup = dy silu(gate) weight,
// dweight[r] = sum over f of dy[r,f] silu(gate[r,f]) up[r,f]
//
// dy (R,F), gate and up (R,2F), weight (R), received I32 (X,e) -> dgate and dup (R,2F), dweight
// (R), overwritten where there are rows.
void Run_kExpertSwigluGrad(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t width = RowLength(in[0]), rows = RowsThatCame(in[3], in[0].type->shape[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const float* dy = in[0].f32() + r * width;
    const float* gate = in[1].f32() + 2 * r * width;
    const float* up = gate + width;
    float* dgate = out[0].f32() + 2 * r * width;
    float* dup = dgate + width;
    const float weight = in[2].f32()[r];
    Vec sum = {};
    ForVectors<2>(width, [&]<int N>(int64_t at, int64_t count) {
      Vec d[N], g[N], u[N], e[N], s[N];
      LoadAll(dy + at, count, d);
      LoadAll(gate + at, count, g);
      LoadAll(up + at, count, u);
      Logistic(g, e, s);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) {
        const Vec silu = g[i] * s[i];
        sum += d[i] * silu * u[i];
        d[i] *= weight;
        g[i] = d[i] * u[i] * (s[i] * (1.0f + g[i] * (1.0f - s[i])));
        u[i] = d[i] * silu;
      }
      StoreAll(dgate + at, count, g);
      StoreAll(dup + at, count, u);
    });
    out[1].f32()[r] = Sum(sum);
  }
}

}  // namespace stringline::cpu
