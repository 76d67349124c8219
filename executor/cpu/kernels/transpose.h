// Transposes squares of sixteen by sixteen floats in registers.
#pragma once

#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {

// Swaps, between rows i and i + step, the elements across the diagonal of their square of 2 step.
template <int step>
inline void SwapAcross(Vec& a, Vec& b) {
  const IntVec lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const IntVec upper = (lane & step) != 0;
  const IntVec left = upper ? lane - step + kLanes : lane;  // index into the concatenation of a and
                                                            // b
  const IntVec right = upper ? lane + kLanes : lane + step;
  const Vec first = Shuffled(a, b, left);
  b = Shuffled(a, b, right);
  a = first;
}

template <int step>
inline void SwapAll(Vec (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & step) == 0) SwapAcross<step>(rows[i], rows[i + step]);
  }
}

inline void Transpose(Vec (&rows)[kLanes]) {
  SwapAll<1>(rows);
  SwapAll<2>(rows);
  SwapAll<4>(rows);
  SwapAll<8>(rows);
}

}  // namespace stringline::cpu
