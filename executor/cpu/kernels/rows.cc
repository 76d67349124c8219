// A table added to every sequence, and the sums over rows that are gradients of vectors and tables.
#include <algorithm>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {
namespace {

// sum[c] (+)= sum over rows, first to last, of x[row,c], 64 columns at a time in registers.
void SumRows(const float* x, int64_t rows, int64_t columns, float* sum, bool accumulate) {
  constexpr int64_t kWide = 4 * kLanes;
  int64_t c = 0;
  for (; c + kWide <= columns; c += kWide) {
    Vec s[4] = {};
    for (int64_t n = 0; n < rows; ++n) {
      for (int i = 0; i < 4; ++i) s[i] += Load(x + n * columns + c + i * kLanes);
    }
    for (int i = 0; i < 4; ++i) {
      float* target = sum + c + i * kLanes;
      Store(target, accumulate ? Load(target) + s[i] : s[i]);
    }
  }
  for (; c < columns; c += kLanes) {
    const int64_t width = std::min(kLanes, columns - c);
    float s[kLanes] = {};
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t i = 0; i < width; ++i) s[i] += x[n * columns + c + i];
    }
    for (int64_t i = 0; i < width; ++i) sum[c + i] = accumulate ? sum[c + i] + s[i] : s[i];
  }
}

// The element of a table at which the row of position `first` begins.
int64_t PositionsAt(double first, const Tensor& table) {
  return static_cast<int64_t>(first) * RowLength(table);
}

}  // namespace

// db[c] = sum over n of dy[n,c]
//
// dy (N,C) -> db (C), overwritten or added to: the sum over this microbatch is computed first, then
// added.
void Run_kColumnSum(const Node&, In in, Out out, Accumulate accumulate, void*) {
  SumRows(in[0].f32(), RowCount(in[0]), RowLength(in[0]), out[0].f32(), accumulate[0]);
}

// y[b,t,c] = x[b,t,c] + table[first+t,c]
//
// x (B,T,C), table (R,C) -> y (B,T,C), overwritten.
void Run_kPositionAdd(const Node& node, In in, Out out, Accumulate, void*) {
  const int64_t batch = in[0].type->shape[0], size = in[0].type->elements() / batch;
  const float* __restrict table = in[1].f32() + PositionsAt(node.attributes[0], in[1]);
  for (int64_t b = 0; b < batch; ++b) {
    const float* __restrict x = in[0].f32() + b * size;
    float* __restrict y = out[0].f32() + b * size;
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] + table[i];
  }
}

// dtable[first+t,c] = sum over b of dy[b,t,c], and 0 in all other rows
//
// dy (B,T,C) -> dtable (R,C), overwritten or added to, as in column_sum.
void Run_kPositionGrad(const Node& node, In in, Out out, Accumulate accumulate, void*) {
  const int64_t batch = in[0].type->shape[0], size = in[0].type->elements() / batch;
  const int64_t begin = PositionsAt(node.attributes[1], out[0]), end = begin + size;
  float* const table = out[0].f32();
  SumRows(in[0].f32(), batch, size, table + begin, accumulate[0]);
  if (accumulate[0]) return;
  std::fill_n(table, begin, 0.0f);
  std::fill(table + end, table + out[0].type->elements(), 0.0f);
}

}  // namespace stringline::cpu
