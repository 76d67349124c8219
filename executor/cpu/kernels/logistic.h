// 1 / (1 + e^-g), of several vectors at once: each exponential waits for its own steps only.
#pragma once

#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {

// e = e^-g and s = 1 / (1 + e).
template <int N>
inline void Logistic(const Vec (&g)[N], Vec (&e)[N], Vec (&s)[N]) {
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) e[i] = -g[i];
  ExpAll(e);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) s[i] = 1.0f / (1.0f + e[i]);
}

}  // namespace stringline::cpu
