// Products of rows with weights, and their gradients; Rows (grouped_rows.h) assigns the weights.
//
// A task owns a tile of the outputs and goes through the other dimension in steps: it loads the
// operands of a step while multiplying those of the step before. Every sum is taken in ascending
// order.
#pragma once

#include <type_traits>

#include "executor/cuda/bodies/grouped_rows.h"
#include "executor/cuda/bodies/tiles.h"

namespace stringline::cuda {

constexpr int kProductStep = 16;   // of the dimension that is summed over
constexpr int kProductApart = 16;  // items along each side of a tile

// An operand that is summed along its rows: a step takes some columns of a tile's rows. row(r) is
// row r of the tile, null beyond the last.
template <typename T, class Row>
struct AlongRows {
  static constexpr int kRows = kProductTile, kColumns = kProductStep;
  int64_t columns;
  bool vectors_fit;
  Row row;

  STRINGLINE_BODY Four Fetch(int r, int c, int64_t step) const {
    return LoadFour<T>(row(r), step + c, columns, vectors_fit);
  }
};
// An operand whose rows are added up: a step takes a tile's columns, from `first` on, of some rows.
// row(d) is the d-th of the rows added up, null beyond the last.
template <typename T, class Row>
struct AcrossRows {
  static constexpr int kRows = kProductStep, kColumns = kProductTile;
  int64_t columns;
  bool vectors_fit;
  Row row;
  int64_t first;

  STRINGLINE_BODY Four Fetch(int r, int c, int64_t step) const {
    return LoadFour<T>(row(step + r), first + c, columns, vectors_fit);
  }
};

template <typename T, class Row>
STRINGLINE_BODY AlongRows<T, Row> Along(const T*, int64_t columns, bool fit, Row row) {
  return {columns, fit, row};
}
template <typename T, class Row>
STRINGLINE_BODY AcrossRows<T, Row> Across(const T*, int64_t columns, bool fit, int64_t first,
                                          Row row) {
  return {columns, fit, row, first};
}

// Words of scratch memory for an operand: two steps, one multiplied, the other loading.
constexpr int kOperandWords = 2 * kProductTile * TileStride(kProductStep);
static_assert(kProductStep * TileStride(kProductTile) <= kOperandWords / 2);
constexpr int kProductWords = 2 * kOperandWords;

template <class Operand, class Block>
STRINGLINE_BODY auto StepAt(const Block& block, int at, bool is_odd) {
  return TileAt(block, at + (is_odd ? kOperandWords / 2 : 0), Operand::kColumns);
}

constexpr int kProductItems = kProductApart * kProductApart;
static_assert(kProductItems * 4 == kProductTile * kProductStep);

// The outputs of an item, by the layout of its operands: see AddDots, AddMix and AddSpread.
template <class A, class B>
struct ProductForm {
  static constexpr bool kDots = A::kRows == kProductTile && B::kRows == kProductTile;
  static constexpr bool kSpread = A::kRows == kProductStep;
  static_assert(kDots || B::kRows == kProductStep);

  static STRINGLINE_BODY int Row(int i, int r) {
    return kSpread ? i / kProductApart * 4 + r : i / kProductApart + r * kProductApart;
  }
  template <class TileA, class TileB>
  static STRINGLINE_BODY void Add(const TileA& a, const TileB& b, int item, Outputs& s) {
    const int i = item / kProductApart, j = item % kProductApart;
    if constexpr (kDots) {
      AddDots<kProductApart>(a, b, i, j, kProductStep, s);
    } else if constexpr (kSpread) {
      AddSpread(a, b, i, j, kProductStep, s);
    } else {
      AddMix<kProductApart>(a, b, i, j, kProductStep, s);
    }
  }
};

// The product of two operands over `depth`; then store(row, column, vector) for each item's
// outputs, in vectors of four columns or of one. Words from 0 to kProductWords are used.
template <class Block, class A, class B, class StoreOutputs>
STRINGLINE_BODY void ProductOf(const Block& block, const A& a, const B& b, int64_t depth,
                               StoreOutputs store) {
  using Form = ProductForm<A, B>;
  struct Fetched {
    Four a, b;
  };
  auto fetched = block.template own<Fetched, kProductItems>();
  auto sums = block.template own<Outputs, kProductItems>();
  const auto fetch = [&](int64_t step) {
    block.each(fetched, [&](int i, Fetched& f) {
      f.a = a.Fetch(i / (A::kColumns / 4), i % (A::kColumns / 4) * 4, step);
      f.b = b.Fetch(i / (B::kColumns / 4), i % (B::kColumns / 4) * 4, step);
    });
  };
  const auto keep = [&](bool is_odd) {
    const auto to_a = StepAt<A>(block, 0, is_odd), to_b = StepAt<B>(block, kOperandWords, is_odd);
    block.each(fetched, [&](int i, Fetched& f) {
      to_a.place(i / (A::kColumns / 4), i % (A::kColumns / 4) * 4, f.a);
      to_b.place(i / (B::kColumns / 4), i % (B::kColumns / 4) * 4, f.b);
    });
    block.sync();
  };
  if (depth > 0) {
    fetch(0);
    keep(false);
  }
  bool is_odd = false;
  for (int64_t step = 0; step < depth; step += kProductStep) {
    const bool goes_on = step + kProductStep < depth;
    if (goes_on) fetch(step + kProductStep);
    const auto at_a = StepAt<A>(block, 0, is_odd), at_b = StepAt<B>(block, kOperandWords, is_odd);
    block.each(sums, [&](int i, Outputs& s) { Form::Add(at_a, at_b, i, s); });
    is_odd = !is_odd;
    if (goes_on) keep(is_odd);
  }
  block.each(sums, [&](int i, Outputs& s) {
    const int j = i % kProductApart;
    STRINGLINE_UNROLL
    for (int r = 0; r < 4; ++r) {
      if constexpr (Form::kDots) {
        STRINGLINE_UNROLL
        for (int c = 0; c < 4; ++c) {
          store(Form::Row(i, r), j + c * kProductApart, Vector<1>{{s.row[r][c]}});
        }
      } else {
        store(Form::Row(i, r), 4 * j, s.row[r]);
      }
    }
  });
}

// f(c, part) for the elements from c on below `size`: all together if vectors fit.
template <int N, class F>
STRINGLINE_BODY void EachBelow(int64_t c, const Vector<N>& v, int64_t size, bool fit, F f) {
  if (N > 1 && fit && c + N <= size) return f(c, v);
  STRINGLINE_UNROLL
  for (int i = 0; i < N; ++i) {
    if (c + i < size) f(c + i, Vector<1>{{v[i]}});
  }
}

constexpr int64_t ProductTiles(int64_t size) { return (size + kProductTile - 1) / kProductTile; }

// The rows of a tile in memory, -1 beyond the last, in scratch memory after the product's own.
constexpr int kProductRowsWords = kProductWords + kProductTile;
template <class Block, class Rows>
STRINGLINE_BODY auto PlaceRows(const Block& block, const Rows& rows, const RowSpan& span) {
  const auto places = block.template scratch<int32_t>(kProductWords);
  block.each(kProductTile, [&](int r) {
    const int64_t v = span.first + r;
    places.put(r, v < span.end ? static_cast<int32_t>(rows.InMemory(span, v)) : -1);
  });
  block.sync();
  return places;
}

// y[n,o] = residual[n,o] + bias[o] + sum over k of x[n,k] w[j,o,k] for the rows n of matrix j
//
// x (N,K), w (j,O,K), bias (O) or null, residual (N,O) or null -> y (N,O); y may be residual
template <typename T, class Rows>
struct LinearOf {
  const T* x;
  const T* w;
  T* y;
  Rows rows;
  int64_t size, width;  // K and O
  const T* bias = nullptr;
  const T* residual = nullptr;

  int64_t blocks() const { return rows.tiles() * ProductTiles(width); }
  int scratch_words() const { return kProductRowsWords; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t tiles = ProductTiles(width);
    const RowSpan span = rows.OfTile(block.index() / tiles);
    if (span.first == span.end) return;
    const int64_t first = block.index() % tiles * kProductTile;
    const T* const weights = w + span.matrix * width * size;
    const bool fit = VectorsFit(size, x, w);
    const auto places = PlaceRows(block, rows, span);
    const auto row_of_x = [&](int r) {
      const int32_t n = places.get(r);
      return n < 0 ? nullptr : x + n * size;
    };
    const auto row_of_w = [&](int o) {
      return first + o < width ? weights + (first + o) * size : nullptr;
    };
    ProductOf(block, Along(x, size, fit, row_of_x), Along(w, size, fit, row_of_w), size,
              [&](int r, int c, const auto& v) {
                const int32_t n = places.get(r);
                const int64_t o = first + c;
                if (n < 0 || o >= width) return;
                float sum = v[0];
                if (bias != nullptr) sum += ToFloat(bias[o]);
                if (residual != nullptr) sum += ToFloat(residual[n * width + o]);
                StoreOne(y + n * width + o, sum);
              });
  }
};

// dx[n,k] = sum over o of dy[n,o] w[j,o,k] for the rows n of matrix j
//
// dy (N,O), w (j,O,K) -> dx (N,K)
template <typename T, class Rows>
struct LinearInputGradOf {
  const T* dy;
  const T* w;
  T* dx;
  Rows rows;
  int64_t size, width;  // K and O

  int64_t blocks() const { return rows.tiles() * ProductTiles(size); }
  int scratch_words() const { return kProductRowsWords; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t tiles = ProductTiles(size);
    const RowSpan span = rows.OfTile(block.index() / tiles);
    if (span.first == span.end) return;
    const int64_t first = block.index() % tiles * kProductTile;
    const T* const weights = w + span.matrix * width * size;
    const bool fit = VectorsFit(size, w, dx);
    const auto places = PlaceRows(block, rows, span);
    const auto row_of_dy = [&](int r) {
      const int32_t n = places.get(r);
      return n < 0 ? nullptr : dy + n * width;
    };
    const auto row_of_w = [&](int64_t o) { return o < width ? weights + o * size : nullptr; };
    ProductOf(block, Along(dy, width, VectorsFit(width, dy), row_of_dy),
              Across(w, size, fit, first, row_of_w), width, [&](int r, int c, const auto& v) {
                const int32_t n = places.get(r);
                if (n < 0) return;
                EachBelow(first + c, v, size, fit,
                          [&](int64_t k, const auto& part) { Store(dx + n * size + k, part); });
              });
  }
};

// dw[j,o,k] = sum over the rows n of matrix j of dy[n,o] x[n,k], written or added
//
// dy (N,O), x (N,K) -> dw (j,O,K)
template <typename T, class Rows>
struct LinearWeightGradOf {
  const T* dy;
  const T* x;
  float* dw;
  Rows rows;
  int64_t size, width;  // K and O
  bool accumulate = false;

  int64_t blocks() const { return rows.matrices() * ProductTiles(width) * ProductTiles(size); }
  int scratch_words() const { return kProductWords; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t down = ProductTiles(width), across = ProductTiles(size);
    const RowSpan span = rows.OfMatrix(block.index() / (down * across));
    if (accumulate && span.first == span.end) return;
    const int64_t first_o = block.index() / across % down * kProductTile;
    const int64_t first_k = block.index() % across * kProductTile;
    float* const to = dw + span.matrix * width * size;
    const bool fit = VectorsFit(size, dw);
    const auto row_of = [&](const T* from, int64_t columns) {
      return [this, &span, from, columns](int64_t i) {
        const int64_t v = span.first + i;
        return v < span.end ? from + rows.InMemory(span, v) * columns : nullptr;
      };
    };
    ProductOf(block, Across(dy, width, VectorsFit(width, dy), first_o, row_of(dy, width)),
              Across(x, size, VectorsFit(size, x), first_k, row_of(x, size)), span.end - span.first,
              [&](int r, int c, const auto& v) {
                if (first_o + r >= width) return;
                float* const row = to + (first_o + r) * size;
                EachBelow(first_k + c, v, size, fit, [&](int64_t k, auto part) {
                  if (accumulate) {
                    const auto before = Load(row + k, Width<sizeof(part) / sizeof(float)>());
                    STRINGLINE_UNROLL
                    for (int i = 0; i < static_cast<int>(sizeof(part) / sizeof(float)); ++i) {
                      part[i] += before[i];
                    }
                  }
                  Store(row + k, part);
                });
              });
  }
};

template <typename T>
using Linear = LinearOf<T, AllRows>;
template <typename T>
using LinearInputGrad = LinearInputGradOf<T, AllRows>;
template <typename T>
using LinearWeightGrad = LinearWeightGradOf<T, AllRows>;
template <typename T>
using GroupedLinear = LinearOf<T, GroupedRows>;
template <typename T>
using GroupedLinearInputGrad = LinearInputGradOf<T, GroupedRows>;
template <typename T>
using GroupedLinearWeightGrad = LinearWeightGradOf<T, GroupedRows>;

}  // namespace stringline::cuda
