// Elementwise ops on arrays of one length. A result may share the memory of an operand.
#pragma once

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

// y = a + b
template <typename T>
struct Add {
  const T* a;
  const T* b;
  T* y;
  int64_t count;

  int64_t blocks() const { return TasksOf(count); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    EachOfTask<kWide<T>>(block, count, VectorsFit(0, a, b, y), [&](int64_t at, auto width) {
      auto v = Load(a + at, width);
      const auto w = Load(b + at, width);
      for (int i = 0; i < width.kCount; ++i) v[i] += w[i];
      Store(y + at, v);
    });
  }
};

// y = a b
template <typename T>
struct Mul {
  const T* a;
  const T* b;
  T* y;
  int64_t count;

  int64_t blocks() const { return TasksOf(count); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    EachOfTask<kWide<T>>(block, count, VectorsFit(0, a, b, y), [&](int64_t at, auto width) {
      auto v = Load(a + at, width);
      const auto w = Load(b + at, width);
      for (int i = 0; i < width.kCount; ++i) v[i] *= w[i];
      Store(y + at, v);
    });
  }
};

// y (+)= factor x. With factor 1 and without accumulation a copy, or a change of type.
template <typename From, typename To>
struct Scale {
  const From* x;
  To* y;
  int64_t count;
  float factor = 1;
  bool accumulate = false;

  int64_t blocks() const { return TasksOf(count); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    constexpr int kStep = kWide < From >> kWide<To> ? kWide<From> : kWide<To>;
    EachOfTask<kStep>(block, count, VectorsFit(0, x, y), [&](int64_t at, auto width) {
      auto v = Load(x + at, width);
      for (int i = 0; i < width.kCount; ++i) v[i] *= factor;
      if (accumulate) {
        const auto before = Load(y + at, width);
        for (int i = 0; i < width.kCount; ++i) v[i] += before[i];
      }
      Store(y + at, v);
    });
  }
};

// y = value
template <typename T>
struct Fill {
  T* y;
  int64_t count;
  float value = 0;

  int64_t blocks() const { return TasksOf(count); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    EachOfTask<kWide<T>>(block, count, VectorsFit(0, y), [&](int64_t at, auto width) {
      Vector<width.kCount> v;
      for (int i = 0; i < width.kCount; ++i) v[i] = value;
      Store(y + at, v);
    });
  }
};

// y[n,c] = x[n,c] + table[n mod repeat,c]; a table of one row is a bias, a table of T rows has a
// row for every position of a sequence.
//
// x (N,C), table (repeat,C) -> y (N,C)
template <typename T>
struct AddRepeated {
  const T* x;
  const T* table;
  T* y;
  int64_t rows, columns, repeat;

  int64_t blocks() const { return rows; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const T* const from = x + n * columns;
    const T* const add = table + n % repeat * columns;
    T* const to = y + n * columns;
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, x, table, y));
    EachStep(block, steps, [&](int c, auto width) {
      auto v = Load(from + c, width);
      const auto w = Load(add + c, width);
      for (int i = 0; i < width.kCount; ++i) v[i] += w[i];
      Store(to + c, v);
    });
  }
};

}  // namespace stringline::cuda
