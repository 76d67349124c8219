// GELU in its tanh form, and the gated unit of Llama's MLP, alone and for experts.
//
// With s(x) = 1 / (1 + e^-x):
//   gelu(x) = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3)       silu(x) = x s(x)
//
// 1 - s(x) is computed as e^-x s(x), exact also for s near 1.
#pragma once

#include <cmath>

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

constexpr float kGeluRoot = 0.7978845608f;  // sqrt(2/pi)
constexpr float kGeluCubic = 0.044715f;

// Both keep NaN.
STRINGLINE_BODY float AtLeast(float least, float x) { return x < least ? least : x; }
STRINGLINE_BODY float AtMost(float most, float x) { return x > most ? most : x; }

// 1 / (1 + e), for an e from 0 to infinity.
STRINGLINE_BODY float GateOf(float e) {
#ifdef __CUDACC__
  return __fdividef(1.0f, 1.0f + e);  // 0 from 2^126 on: as good as 2^-126
#else
  return 1.0f / (1.0f + e);
#endif
}

STRINGLINE_BODY float GeluOf(float x) {
  const float e = std::exp(x * (-2.0f * kGeluRoot - 2.0f * kGeluRoot * kGeluCubic * (x * x)));
  return x * GateOf(e);
}

// Beyond |x| = 10 the gate is 0 or 1 to the last bit, so x is clamped.
STRINGLINE_BODY float GeluSlope(float value) {
  const float x = AtMost(10.0f, AtLeast(-10.0f, value));
  const float e = std::exp(x * (-2.0f * kGeluRoot - 2.0f * kGeluRoot * kGeluCubic * (x * x)));
  const float s = GateOf(e);
  const float turn = x * (2.0f * kGeluRoot + 6.0f * kGeluRoot * kGeluCubic * (x * x));
  return s * (1.0f + turn * (e * s));
}

STRINGLINE_BODY float SiluOf(float gate) { return gate * GateOf(std::exp(-gate)); }

// silu and its slope. Beyond 80, s is 0 or 1 to the last bit.
struct SiluAndSlope {
  float silu, slope;
  STRINGLINE_BODY explicit SiluAndSlope(float gate) {
    const float g = AtLeast(-80.0f, gate), near = AtMost(80.0f, g);
    const float e = std::exp(-near), s = GateOf(e);
    silu = g * s;
    slope = s * (1.0f + near * (e * s));
  }
};

// y = gelu(x)                                  arrays of one length
template <typename T>
struct Gelu {
  const T* x;
  T* y;
  int64_t count;

  int64_t blocks() const { return TasksOf(count); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    EachOfTask<kWide<T>>(block, count, VectorsFit(0, x, y), [&](int64_t at, auto width) {
      auto v = Load(x + at, width);
      for (int i = 0; i < width.kCount; ++i) v[i] = GeluOf(v[i]);
      Store(y + at, v);
    });
  }
};

// dx = dy gelu'(x)                             arrays of one length; dx may be dy or x
template <typename T>
struct GeluGrad {
  const T* dy;
  const T* x;
  T* dx;
  int64_t count;

  int64_t blocks() const { return TasksOf(count); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    EachOfTask<kWide<T>>(block, count, VectorsFit(0, dy, x, dx), [&](int64_t at, auto width) {
      auto v = Load(x + at, width);
      const auto d = Load(dy + at, width);
      for (int i = 0; i < width.kCount; ++i) v[i] = d[i] * GeluSlope(v[i]);
      Store(dx + at, v);
    });
  }
};

// y[n,c] = silu(x[n,c]) x[n,C+c] weight[n]     x (N,2C), weight (N) -> y (N,C)
//
// Without `weight` all weights are 1. With `received` only that number of rows is valid, at most
// `rows`; the others are not written.
template <typename T>
struct Swiglu {
  const T* x;
  T* y;
  int64_t rows, columns;
  const float* weight = nullptr;
  const int32_t* received = nullptr;

  int64_t blocks() const { return rows < kMostRowTasks ? rows : kMostRowTasks; }
  static constexpr int64_t kMostRowTasks = 1 << 14;  // avoids idle tasks if few rows are received

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t end = received == nullptr ? rows : int64_t{*received};
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, x, y));
    for (int64_t n = block.index(); n < end; n += block.count()) {
      const T* const gate = x + n * 2 * columns;
      T* const to = y + n * columns;
      const float factor = weight == nullptr ? 1.0f : weight[n];
      EachStep(block, steps, [&](int c, auto width) {
        const auto g = Load(gate + c, width);
        auto v = Load(gate + columns + c, width);
        for (int i = 0; i < width.kCount; ++i) v[i] *= SiluOf(g[i]) * factor;
        Store(to + c, v);
      });
    }
  }
};

// dx[n,c] = dy[n,c] weight[n] x[n,C+c] silu'(x[n,c]),  dx[n,C+c] = dy[n,c] weight[n] silu(x[n,c])
// dweight[n] = sum over c of dy[n,c] silu(x[n,c]) x[n,C+c]
//
// dy (N,C), x (N,2C), weight (N) -> dx (N,2C), dweight (N). Without `weight` dweight is not
// written; `received` as in Swiglu. dx may be x.
template <typename T>
struct SwigluGrad {
  const T* dy;
  const T* x;
  T* dx;
  int64_t rows, columns;
  const float* weight = nullptr;
  float* dweight = nullptr;
  const int32_t* received = nullptr;

  int64_t blocks() const {
    return rows < Swiglu<T>::kMostRowTasks ? rows : Swiglu<T>::kMostRowTasks;
  }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t end = received == nullptr ? rows : int64_t{*received};
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, dy, x, dx));
    for (int64_t n = block.index(); n < end; n += block.count()) {
      const T* const from = dy + n * columns;
      const T* const gate = x + n * 2 * columns;
      T* const to = dx + n * 2 * columns;
      const float factor = weight == nullptr ? 1.0f : weight[n];
      const auto row = [&](int c, auto width, float* along) {
        auto d = Load(from + c, width), g = Load(gate + c, width);
        const auto up = Load(gate + columns + c, width);
        for (int i = 0; i < width.kCount; ++i) {
          const SiluAndSlope gated(g[i]);
          if (along != nullptr) *along += d[i] * gated.silu * up[i];
          d[i] *= factor;
          g[i] = d[i] * up[i] * gated.slope;
          d[i] *= gated.silu;
        }
        Store(to + c, g);
        Store(to + columns + c, d);
      };
      if (weight == nullptr) {
        EachStep(block, steps, [&](int c, auto width) { row(c, width, nullptr); });
        continue;
      }
      const Sums<1> along = SumsOverSteps<1>(
          block, steps, [&](int c, auto width, Sums<1>& s) { row(c, width, &s[0]); });
      block.once([&] { dweight[n] = along[0]; });
    }
  }
};

}  // namespace stringline::cuda
