// A row of any length in vectors of sixteen floats: whole vectors, and a partial last vector.
#pragma once

#include <type_traits>

#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {

// Calls body(offset, width) for a row's vectors: width is 16 but for the last.
template <typename Body>
inline void ForRow(int64_t columns, Body body) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) body(c, std::integral_constant<int64_t, kLanes>());
  if (c < columns) body(c, columns - c);
}

inline Vec Get(const float* p, int64_t width) {
  return width == kLanes ? Load(p) : LoadPart(p, width);
}
inline void Put(float* p, Vec v, int64_t width) {
  if (width == kLanes) {
    Store(p, v);
  } else {
    StorePart(p, v, width);
  }
}

// 1 in the first `width` lanes, 0 in the others.
inline Vec Ones(int64_t width) {
  const IntVec lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < static_cast<int32_t>(width) ? Splat(1.0f) : Splat(0.0f);
}

}  // namespace stringline::cpu
