// The gated unit of Llama's MLP (GLU Variants Improve Transformer, Shazeer 2020). With
// s = 1 / (1 + e^-g):
//
//   silu(g) = g s          its derivative: s (1 + g (1 - s))
#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/logistic.h"
#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {
// y[n,c] = silu(x[n,c]) x[n,C+c]
//
// x (N,2C) -> y (N,C), overwritten.
void Run_kSwiglu(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowCount(out[0]), columns = RowLength(out[0]);
  for (int64_t n = 0; n < rows; ++n) {
    const float* gate = in[0].f32() + n * 2 * columns;
    const float* up = gate + columns;
    float* y = out[0].f32() + n * columns;
    ForVectors<4>(columns, [&]<int N>(int64_t at, int64_t width) {
      Vec g[N], u[N], e[N], s[N];
      LoadAll(gate + at, width, g);
      LoadAll(up + at, width, u);
      Logistic(g, e, s);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) u[i] *= g[i] * s[i];
      StoreAll(y + at, width, u);
    });
  }
}

// dx[n,c] = dy[n,c] x[n,C+c] silu'(x[n,c]),  dx[n,C+c] = dy[n,c] silu(x[n,c])
//
// dy (N,C), x (N,2C) -> dx (N,2C), overwritten. 1 - s is computed as e^-g s, exact also for s
// near 1. Beyond |g| = 80, s is 0 or 1 to the last bit, so g is clamped.
void Run_kSwigluGrad(const Node&, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  for (int64_t n = 0; n < rows; ++n) {
    const float* dy = in[0].f32() + n * columns;
    const float* gate = in[1].f32() + n * 2 * columns;
    const float* up = gate + columns;
    float* dgate = out[0].f32() + n * 2 * columns;
    float* dup = dgate + columns;
    ForVectors<2>(columns, [&]<int N>(int64_t at, int64_t width) {
      Vec d[N], g[N], u[N], near[N], e[N], s[N];
      LoadAll(dy + at, width, d);
      LoadAll(gate + at, width, g);
      LoadAll(up + at, width, u);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) {
        g[i] = Max(Splat(-80.0f), g[i]);
        near[i] = Min(Splat(80.0f), g[i]);
      }
      Logistic(near, e, s);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) {
        u[i] *= d[i] * s[i] * (1.0f + near[i] * (e[i] * s[i]));
        d[i] *= g[i] * s[i];
      }
      StoreAll(dgate + at, width, u);
      StoreAll(dup + at, width, d);
    });
  }
}

}  // namespace stringline::cpu
