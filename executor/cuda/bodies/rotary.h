// Rotary positions (RoFormer, Su et al. 2021), with the two channels of a pair half a head apart.
#pragma once

#include <cmath>

#include "executor/cuda/bodies/head_norm.h"

namespace stringline::cuda {

// cosines[t,d] and sines[t,d] of the angle (first + t) theta^(-d/half), in double before the last
// rounding: a million rotations err by less than a float's rounding. Computed once per model.
struct RotaryTable {
  float* cosines;
  float* sines;
  int64_t positions, half;
  double theta;
  int64_t first = 0;

  int64_t blocks() const { return positions; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t t = block.index();
    block.each(static_cast<int>(half), [&](int d) {
      const double step = std::pow(theta, -static_cast<double>(d) / static_cast<double>(half));
      const double angle = static_cast<double>(first + t) * step;
      cosines[t * half + d] = static_cast<float>(std::cos(angle));
      sines[t * half + d] = static_cast<float>(std::sin(angle));
    });
  }
};

// For each head of queries and keys, d < D/2:
//
// y[t,d] = x[t,d] cos a[t,d] - x[t,d+D/2] direction sin a[t,d]
// y[t,d+D/2] = x[t,d+D/2] cos a[t,d] + x[t,d] direction sin a[t,d]
//
// qkv (B,T,(H+2K)D) -> y as qkv; values are copied. y may be qkv. The gradient is the same with
// the other direction. A row of a packed sequence has its position in its document for t.
template <typename T>
struct Rotary {
  const T* x;
  T* y;
  const float* cosines;  // (T,D/2), as are the sines: RotaryTable
  const float* sines;
  int64_t rows, positions;  // B T and T
  PackedHeads heads;
  float direction = 1;
  const int32_t* in_documents = nullptr;  // (B,T), of packed sequences: below T; null: t

  int64_t blocks() const { return rows; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index(), half = heads.size / 2;
    const int64_t t = in_documents == nullptr ? n % positions : in_documents[n];
    const int64_t row_at = n * heads.all() * heads.size;
    const bool fit = VectorsFit(half, x, y) && VectorsFit(half, cosines, sines);
    const Steps<kWide<T>> of_head(half, fit);
    const int turned = static_cast<int>(heads.normed());
    block.each(turned * of_head.count(), [&](int i) {
      const int64_t at = row_at + i / of_head.count() * heads.size;
      of_head.Visit(i % of_head.count(), [&](int d, auto width) {
        auto low = Load(x + at + d, width), high = Load(x + at + half + d, width);
        const auto c = Load(cosines + t * half + d, width), s = Load(sines + t * half + d, width);
        for (int k = 0; k < width.kCount; ++k) {
          const float l = low[k], sine = direction * s[k];
          low[k] = l * c[k] - high[k] * sine;
          high[k] = high[k] * c[k] + l * sine;
        }
        Store(y + at + d, low);
        Store(y + at + half + d, high);
      });
    });
    if (x == y) return;
    const int64_t values = row_at + heads.normed() * heads.size;
    CopyRow(block, Steps<kWide<T>>(heads.keys * heads.size, fit), x + values, y + values);
  }
};

}  // namespace stringline::cuda
