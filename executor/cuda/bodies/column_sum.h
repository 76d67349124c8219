// Sums over rows, in an order that depends on the shape alone.
#pragma once

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

// Tasks (row part, tile of columns): sum[part,c] = sum over the part's rows n of x[n,c].
//
// In a part, every 32nd row is added to the same partial sum, then the 32 of them one after the
// other. x: rows `stride` elements apart; sum (parts,C), overwritten or added to. With `right`, of
// one part, the second half of the columns has its sums there.
template <typename T>
struct ColumnSum {
  const T* x;
  float* sum;
  int64_t rows, columns, stride;
  int64_t parts = 1;
  bool accumulate = false;
  float* right = nullptr;
  bool accumulate_right = false;

  static constexpr int kTile = 64, kLanes = 32;
  int64_t tiles() const { return (columns + kTile - 1) / kTile; }
  int64_t blocks() const { return parts * tiles(); }
  int scratch_words() const { return kTile * kLanes; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t tiles = (columns + kTile - 1) / kTile;
    const int64_t part = block.index() / tiles, first = block.index() % tiles * kTile;
    const int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
    const int wide = static_cast<int>(columns - first < kTile ? columns - first : kTile);
    const auto lanes = block.template scratch<float>(0);
    const Steps<kWide<T>> steps(wide, VectorsFit(stride, x));
    block.each(kLanes * steps.count(), [&](int i) {
      const int lane = i / steps.count();
      steps.Visit(i % steps.count(), [&](int c, auto width) {
        Vector<width.kCount> s = {};
        for (int64_t n = begin + lane; n < end; n += kLanes) {
          const auto v = Load(x + n * stride + first + c, width);
          for (int k = 0; k < width.kCount; ++k) s[k] += v[k];
        }
        for (int k = 0; k < width.kCount; ++k) lanes.put(lane * kTile + c + k, s[k]);
      });
    });
    block.sync();
    block.each(wide, [&](int c) {
      float s = lanes.get(c);
      for (int lane = 1; lane < kLanes; ++lane) s += lanes.get(lane * kTile + c);
      const int64_t at = first + c, half = columns / 2;
      const bool is_right = right != nullptr && at >= half;
      float* const to = is_right ? right + at - half : sum + part * columns + at;
      *to = (is_right ? accumulate_right : accumulate) ? *to + s : s;
    });
  }
};

// A long sum takes two launches, the first for partial sums.
constexpr int64_t ColumnSumParts(int64_t rows) {
  const int64_t parts = rows / 128;
  return parts < 1 ? 1 : parts < 64 ? parts : 64;
}
constexpr int64_t ColumnSumFloats(int64_t rows, int64_t columns) {
  return ColumnSumParts(rows) == 1 ? 0 : ColumnSumParts(rows) * columns;
}

// sum[c] (+)= sum over n of x[n,c], by launches of run(body). `partial` has ColumnSumFloats floats.
template <class Run, typename T>
void SumColumns(const Run& run, ColumnSum<T> whole, float* partial) {
  const int64_t parts = ColumnSumParts(whole.rows);
  if (parts == 1) return run(whole);
  ColumnSum<T> first = whole;
  first.sum = partial;
  first.parts = parts;
  first.accumulate = false;
  first.right = nullptr;
  run(first);
  run(ColumnSum<float>{partial, whole.sum, parts, whole.columns, whole.columns, 1, whole.accumulate,
                       whole.right, whole.accumulate_right});
}

// table[c] (+)= sum over n, ascending, of x[n,c]: for few rows, and as many columns as a table has.
//
// x (N,C) -> sum (C)
template <typename T>
struct SumOfFewRows {
  const T* x;
  float* sum;
  int64_t rows, columns;
  bool accumulate = false;

  int64_t blocks() const { return TasksOf(columns); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const bool fit = VectorsFit(columns, x) && VectorsFit(0, sum);
    EachOfTask<kWide<T>>(block, columns, fit, [&](int64_t at, auto width) {
      auto s = Load(x + at, width);
      for (int64_t n = 1; n < rows; ++n) {
        const auto v = Load(x + n * columns + at, width);
        for (int i = 0; i < width.kCount; ++i) s[i] += v[i];
      }
      if (accumulate) {
        const auto before = Load(sum + at, width);
        for (int i = 0; i < width.kCount; ++i) s[i] += before[i];
      }
      Store(sum + at, s);
    });
  }
};

}  // namespace stringline::cuda
