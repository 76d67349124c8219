// Small matrix products on packed operands, in registers: the inside of attention.
#pragma once

#include <cstdint>

#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {

// An operand of which single elements are read: element (i, k) is data[i * row + k * step].
struct Elements {
  const float* data;
  int64_t row;
  int64_t step;
};

// One tile of R rows and V vectors of c (+)= a b. The sum over k is ascending.
template <int R, int V>
inline void Tile(Elements a, const float* b, int64_t b_row, int64_t depth, float* c, int64_t c_row,
                 bool accumulate) {
  Vec sum[R][V];
  for (int i = 0; i < R; ++i) {
    for (int v = 0; v < V; ++v) sum[i][v] = accumulate ? Load(c + i * c_row + v * kLanes) : Vec{};
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec row[V];
    for (int v = 0; v < V; ++v) row[v] = Load(b + k * b_row + v * kLanes);
    for (int i = 0; i < R; ++i) {
      const float element = a.data[i * a.row + k * a.step];
      for (int v = 0; v < V; ++v) sum[i][v] += element * row[v];
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int v = 0; v < V; ++v) Store(c + i * c_row + v * kLanes, sum[i][v]);
  }
}

template <int V>
inline void TileRows(int64_t rows, Elements a, const float* b, int64_t b_row, int64_t depth,
                     float* c, int64_t c_row, bool accumulate) {
  int64_t i = 0;
  for (; i + 8 <= rows; i += 8) {
    Tile<8, V>({a.data + i * a.row, a.row, a.step}, b, b_row, depth, c + i * c_row, c_row,
               accumulate);
  }
  for (; i < rows; ++i) {
    Tile<1, V>({a.data + i * a.row, a.row, a.step}, b, b_row, depth, c + i * c_row, c_row,
               accumulate);
  }
}

// c[i,j] (+)= sum over k < depth of a(i,k) b[k,j], for i < rows and j < columns, a multiple of 16.
inline void TileProduct(int64_t rows, int64_t columns, int64_t depth, Elements a, const float* b,
                        int64_t b_row, float* c, int64_t c_row, bool accumulate) {
  int64_t j = 0;
  for (; j + 2 * kLanes <= columns; j += 2 * kLanes) {
    TileRows<2>(rows, a, b + j, b_row, depth, c + j, c_row, accumulate);
  }
  if (j < columns) TileRows<1>(rows, a, b + j, b_row, depth, c + j, c_row, accumulate);
}

}  // namespace stringline::cpu
