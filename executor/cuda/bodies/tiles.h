// Tiles of matrices in scratch memory, and products of them with 4 x 4 outputs per item.
//
// A tile keeps its rows as in memory, each padded by four words: so 16 bytes of eight consecutive
// rows lie in different banks. Each kind of product assigns outputs to items such that every
// operand is read 16 bytes at a time.
#pragma once

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

using Four = Vector<4>;

template <class Scratch>
struct Tile {
  Scratch words;
  int stride;

  STRINGLINE_BODY Four four(int row, int column) const {
    return words.template take<Four>(row * stride + column);
  }
  STRINGLINE_BODY void place(int row, int column, const Four& v) const {
    words.place(row * stride + column, v);
  }
  STRINGLINE_BODY float get(int row, int column) const { return words.get(row * stride + column); }
  STRINGLINE_BODY void put(int row, int column, float v) const {
    words.put(row * stride + column, v);
  }
};

constexpr int TileStride(int columns) { return columns + 4; }

// A tile of rows of `columns` from word `at` on.
template <class Block>
STRINGLINE_BODY auto TileAt(const Block& block, int at, int columns) {
  auto words = block.template scratch<float>(at);
  return Tile<decltype(words)>{words, TileStride(columns)};
}

// Elements c .. c+3 of a row of `size`; 0 beyond its end, or for a null row.
template <typename T>
STRINGLINE_BODY Four LoadFour(const T* row, int64_t c, int64_t size, bool vectors_fit) {
  if (row == nullptr) return {};
  if (vectors_fit && c + 4 <= size) return Load(row + c, Width<4>());
  Four v = {};
  STRINGLINE_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (c + i < size) v[i] = ToFloat(row[c + i]);
  }
  return v;
}

template <typename T>
STRINGLINE_BODY void StoreFour(T* row, int64_t c, int64_t size, bool vectors_fit, const Four& v) {
  if (vectors_fit && c + 4 <= size) return Store(row + c, v);
  STRINGLINE_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (c + i < size) StoreOne(row + c + i, v[i]);
  }
}

// Fills kRows rows of kColumns with row(r), each of `size` elements, times factor.
template <int kRows, int kColumns, class Block, class Tile, class Row>
STRINGLINE_BODY void FillTile(const Block& block, const Tile& tile, int64_t size, bool vectors_fit,
                              float factor, Row row) {
  block.each(kRows * (kColumns / 4), [&](int i) {
    const int r = i / (kColumns / 4), c = i % (kColumns / 4) * 4;
    Four v = LoadFour(row(r), c, size, vectors_fit);
    STRINGLINE_UNROLL
    for (int k = 0; k < 4; ++k) v[k] *= factor;
    tile.place(r, c, v);
  });
}

// The sums of an item: four rows by four columns.
struct Outputs {
  Four row[4];
};

// Item (i, j): s.row[r][c] += sum over d < depth of a[i + r kApart, d] b[j + c kApart, d]
template <int kApart, class A, class B>
STRINGLINE_BODY void AddDots(const A& a, const B& b, int i, int j, int depth, Outputs& s) {
  for (int d = 0; d < depth; d += 4) {
    Four x[4], y[4];
    STRINGLINE_UNROLL
    for (int k = 0; k < 4; ++k) {
      x[k] = a.four(i + k * kApart, d);
      y[k] = b.four(j + k * kApart, d);
    }
    STRINGLINE_UNROLL
    for (int r = 0; r < 4; ++r) {
      STRINGLINE_UNROLL
      for (int c = 0; c < 4; ++c) {
        STRINGLINE_UNROLL
        for (int k = 0; k < 4; ++k) s.row[r][c] += x[r][k] * y[c][k];
      }
    }
  }
}

// Item (i, j): s.row[r][c] += sum over d < depth of a[i + r kApart, d] b[d, 4 j + c]
template <int kApart, class A, class B>
STRINGLINE_BODY void AddMix(const A& a, const B& b, int i, int j, int depth, Outputs& s) {
  for (int d = 0; d < depth; d += 4) {
    Four x[4];
    STRINGLINE_UNROLL
    for (int r = 0; r < 4; ++r) x[r] = a.four(i + r * kApart, d);
    STRINGLINE_UNROLL
    for (int k = 0; k < 4; ++k) {
      const Four y = b.four(d + k, 4 * j);
      STRINGLINE_UNROLL
      for (int r = 0; r < 4; ++r) {
        STRINGLINE_UNROLL
        for (int c = 0; c < 4; ++c) s.row[r][c] += x[r][k] * y[c];
      }
    }
  }
}

// Item (i, j): s.row[r][c] += sum over d < depth of a[d, 4 i + r] b[d, 4 j + c]
template <class A, class B>
STRINGLINE_BODY void AddSpread(const A& a, const B& b, int i, int j, int depth, Outputs& s) {
  for (int d = 0; d < depth; ++d) {
    const Four x = a.four(d, 4 * i), y = b.four(d, 4 * j);
    STRINGLINE_UNROLL
    for (int r = 0; r < 4; ++r) {
      STRINGLINE_UNROLL
      for (int c = 0; c < 4; ++c) s.row[r][c] += x[r] * y[c];
    }
  }
}

}  // namespace stringline::cuda
