// Products of bf16 rows with their experts' weights on tensor cores, and their gradients.
//
// A task owns 128 x 256 outputs, and eight warps 64 x 64 of them each. It goes through the sum in
// steps of 32 terms: three steps are on their way to scratch memory while one is multiplied. Every
// sum is taken in steps of 16 terms, ascending; sums are float32. A smaller tile would read more
// from the L2 cache than it gives: 128 x 128 have 64 operations a byte, these have 85.
//
// Memory is read in 16 bytes, so both dimensions of the weights are multiples of 8 numbers, and
// arrays begin at multiples of 16 bytes (TensorProductsFit); linear.h has the products for others.
#pragma once

#include "executor/cuda/bodies/grouped_rows.h"
#include "executor/cuda/bodies/vectors.h"
#include "executor/cuda/bodies/warp_tiles.h"

namespace stringline::cuda {

constexpr int kTensorRows = 128;  // of a tile of outputs
constexpr int kTensorColumns = 256;
constexpr int kTensorStep = 32;   // terms of a sum
constexpr int kTensorStages = 4;  // steps in scratch memory
constexpr int kTensorThreads = 256;
constexpr int kTensorWarps = kTensorThreads / kWarpLanes;
constexpr int kWarpSide = 64;  // of a warp's outputs
static_assert(kTensorRows * kTensorColumns == kTensorWarps * kWarpSide * kWarpSide);

// Words of scratch memory: a stage has the left operand's tile of a step, then the right one's. The
// outputs take their place, with rows of four more words, so that rows lie in different banks. Then
// the rows in memory.
constexpr int kTensorLeftWords = kTensorRows * kTensorStep / 2;
constexpr int kTensorStageWords = kTensorLeftWords + kTensorColumns * kTensorStep / 2;
constexpr int kTensorOutputStride = kTensorColumns + 4;
constexpr int kTensorOutputWords = kTensorRows * kTensorOutputStride;
static_assert(kTensorStages * kTensorStageWords <= kTensorOutputWords);

// The tile of an operand in scratch memory, in pieces of 16 bytes, which are swapped within a row
// such that eight pieces read together lie in different banks. As the left factor an operand is
// read in 16 rows of outputs from `first` on, as the right one in 16 columns; `half` counts the 16s
// of a step's terms.
//
// Rows of outputs, kSize of them, with the terms of a step side by side:
template <int kSize>
struct TilesAlong {
  static constexpr bool kTransposed = false;
  static constexpr int kPieces = kSize * kTensorStep / 8 / kTensorThreads;  // of a thread
  static constexpr int kRowPieces = kTensorStep / 8;
  static STRINGLINE_BODY int Word(int row, int piece) {
    return row * kTensorStep / 2 + 4 * (piece ^ (row / 2 % 4));
  }
  static STRINGLINE_BODY int LeftWord(int first, int half, int lane) {
    return Word(first + lane % 16, 2 * half + lane / 16);
  }
  static STRINGLINE_BODY int RightWord(int first, int half, int lane) {
    return Word(first + lane / 16 * 8 + lane % 8, 2 * half + lane / 8 % 2);
  }
};
// Rows of terms with kSize outputs side by side:
template <int kSize>
struct TilesAcross {
  static constexpr bool kTransposed = true;
  static constexpr int kPieces = kSize * kTensorStep / 8 / kTensorThreads;
  static constexpr int kRowPieces = kSize / 8;
  static STRINGLINE_BODY int Word(int row, int piece) {
    return row * kSize / 2 + 4 * (piece ^ (row % 8));
  }
  static STRINGLINE_BODY int LeftWord(int first, int half, int lane) {
    return Word(16 * half + lane / 16 * 8 + lane % 8, first / 8 + lane / 8 % 2);
  }
  static STRINGLINE_BODY int RightWord(int first, int half, int lane) {
    return Word(16 * half + lane / 8 % 2 * 8 + lane % 8, first / 8 + lane / 16);
  }
};

// An operand in memory. Thread t copies pieces t, t + threads, ... of a step; a State is a thread's
// own. Piece returns the address of 16 bytes, or null beyond the operand's end.
//
// row(r): row r of the tile, null beyond the last, of `terms` elements.
template <int kSize, class Row>
struct TensorAlong {
  using Tiles = TilesAlong<kSize>;
  struct State {
    const Bf16* rows[Tiles::kPieces];
  };
  int64_t terms;
  Row row;

  STRINGLINE_BODY void Begin(int t, State& state) const {
    STRINGLINE_UNROLL
    for (int p = 0; p < Tiles::kPieces; ++p) {
      state.rows[p] = row((t + p * kTensorThreads) / Tiles::kRowPieces);
    }
  }
  STRINGLINE_BODY const Bf16* Piece(int t, int p, int64_t term, State& state) const {
    const int64_t at = term + t % Tiles::kRowPieces * 8;
    return state.rows[p] != nullptr && at < terms ? state.rows[p] + at : nullptr;
  }
};
// row(d): the row of term d, null beyond the last, from `first` on of `columns` elements.
template <int kSize, class Row>
struct TensorAcross {
  using Tiles = TilesAcross<kSize>;
  struct State {};
  int64_t columns, first;
  Row row;

  STRINGLINE_BODY void Begin(int, State&) const {}
  STRINGLINE_BODY const Bf16* Piece(int t, int p, int64_t term, State&) const {
    const int64_t at = first + t % Tiles::kRowPieces * 8;
    const Bf16* const from = row(term + (t + p * kTensorThreads) / Tiles::kRowPieces);
    return from != nullptr && at < columns ? from + at : nullptr;
  }
};
template <int kSize, class Row>
STRINGLINE_BODY TensorAlong<kSize, Row> TensorRows(int64_t terms, Row row) {
  return {terms, row};
}
template <int kSize, class Row>
STRINGLINE_BODY TensorAcross<kSize, Row> TensorTerms(int64_t columns, int64_t first, Row row) {
  return {columns, first, row};
}

// A warp's 64 x 64 outputs, as a lane has them.
struct TensorSums {
  ProductSums at[4][8];
};

// sums += the product of the operands of a step, which lie at words `left` and `right`.
template <class A, class B, class Scratch, class Sums>
STRINGLINE_BODY void MultiplyStep(const Scratch& left, const Scratch& right, int warp, Sums& sums) {
  constexpr int kAcross = kTensorColumns / kWarpSide;
  const int row = warp / kAcross * kWarpSide, column = warp % kAcross * kWarpSide;
  STRINGLINE_UNROLL
  for (int half = 0; half < kTensorStep / 16; ++half) {
    Lanes<Matrices> a[4];
    STRINGLINE_UNROLL
    for (int i = 0; i < 4; ++i) {
      LoadMatrices<A::kTransposed>(
          left, [&](int lane) { return A::LeftWord(row + 16 * i, half, lane); }, &a[i]);
    }
    STRINGLINE_UNROLL
    for (int j = 0; j < 8; j += 2) {
      Lanes<Matrices> b;
      LoadMatrices<B::kTransposed>(
          right, [&](int lane) { return B::RightWord(column + 8 * j, half, lane); }, &b);
      STRINGLINE_UNROLL
      for (int i = 0; i < 4; ++i) {
        STRINGLINE_UNROLL
        for (int k = 0; k < 2; ++k) {
          MultiplyAdd(warp, a[i], b, 2 * k, sums,
                      [i, j, k](TensorSums& s) -> ProductSums& { return s.at[i][j + k]; });
        }
      }
    }
  }
}

// The product of two operands over `depth` terms; then store(row, column, vector of eight) for all
// outputs of the tile. `base` is any address that can be read. prepare(step) is called before the
// barrier after which a step's pieces are asked for.
template <class Block, class A, class B, class Prepare, class StoreOutputs>
STRINGLINE_BODY void TensorProductOf(const Block& block, const A& a, const B& b, int64_t depth,
                                     const Bf16* base, Prepare prepare, StoreOutputs store) {
  Warps<TensorSums, kTensorWarps> sums;
  auto a_state = block.template own<typename A::State, kTensorThreads>();
  auto b_state = block.template own<typename B::State, kTensorThreads>();
  block.each(a_state, [&](int t, typename A::State& state) { a.Begin(t, state); });
  block.each(b_state, [&](int t, typename B::State& state) { b.Begin(t, state); });
  Copies copies;
  const auto steps = static_cast<int>((depth + kTensorStep - 1) / kTensorStep);
  const auto scratch_of = [&](int step, bool is_right) {
    return block.template scratch<uint32_t>(step % kTensorStages * kTensorStageWords +
                                            (is_right ? kTensorLeftWords : 0));
  };
  const auto copy = [&](const auto& operand, const auto& to, int step, int t, auto& state) {
    using Tiles = typename std::decay_t<decltype(operand)>::Tiles;
    STRINGLINE_UNROLL
    for (int p = 0; p < Tiles::kPieces; ++p) {
      const int piece = t + p * kTensorThreads;
      const Bf16* const from = operand.Piece(t, p, int64_t{step} * kTensorStep, state);
      copies.Copy(t, to, Tiles::Word(piece / Tiles::kRowPieces, piece % Tiles::kRowPieces),
                  from == nullptr ? base : from, from != nullptr);
    }
  };
  const auto fetch = [&](int step) {
    if (step < steps) {
      const auto to_a = scratch_of(step, false), to_b = scratch_of(step, true);
      block.each(a_state, [&](int t, auto& state) { copy(a, to_a, step, t, state); });
      block.each(b_state, [&](int t, auto& state) { copy(b, to_b, step, t, state); });
    }
    copies.Commit();
  };
  for (int step = 0; step < kTensorStages - 1; ++step) {
    prepare(step);
    block.sync();
    fetch(step);
  }
  prepare(kTensorStages - 1);
  for (int step = 0; step < steps; ++step) {
    copies.Wait<kTensorStages - 2>(block);
    block.sync();
    fetch(step + kTensorStages - 1);
    prepare(step + kTensorStages);
    const auto left = scratch_of(step, false), right = scratch_of(step, true);
    sums.each([&](int warp) {
      MultiplyStep<typename A::Tiles, typename B::Tiles>(left, right, warp, sums);
    });
  }
  copies.Wait<0>(block);
  block.sync();
  const auto outputs = block.template scratch<float>(0);
  block.each(kTensorThreads, [&](int t) {
    constexpr int kAcross = kTensorColumns / kWarpSide;
    const int warp = t / kWarpLanes, lane = t % kWarpLanes;
    const int first_row = warp / kAcross * kWarpSide, first_column = warp % kAcross * kWarpSide;
    STRINGLINE_UNROLL
    for (int i = 0; i < 4; ++i) {
      STRINGLINE_UNROLL
      for (int j = 0; j < 8; ++j) {
        STRINGLINE_UNROLL
        for (int e = 0; e < 4; ++e) {
          const int row = first_row + 16 * i + lane / 4 + e / 2 * 8;
          const int column = first_column + 8 * j + lane % 4 * 2 + e % 2;
          outputs.put(row * kTensorOutputStride + column, sums.of(t).at[i][j].at[e]);
        }
      }
    }
  });
  block.sync();
  block.each(kTensorRows * (kTensorColumns / 8), [&](int piece) {
    const int row = piece / (kTensorColumns / 8), column = piece % (kTensorColumns / 8) * 8;
    const auto low = outputs.template take<Vector<4>>(row * kTensorOutputStride + column);
    const auto high = outputs.template take<Vector<4>>(row * kTensorOutputStride + column + 4);
    store(row, column,
          Vector<8>{{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]}});
  });
}

constexpr int64_t TensorTilesDown(int64_t size) { return (size + kTensorRows - 1) / kTensorRows; }
constexpr int64_t TensorTiles(int64_t size) { return (size + kTensorColumns - 1) / kTensorColumns; }

template <typename... T>
bool TensorProductsFit(int64_t size, int64_t width, const T*... arrays) {
  return size % 8 == 0 && width % 8 == 0 &&
         ((reinterpret_cast<uintptr_t>(arrays) % 16 == 0) && ...);
}

// The rows of a tile in memory, -1 beyond the last, in scratch memory behind the outputs.
constexpr int kTensorRowsWords = kTensorOutputWords + kTensorRows;
template <class Block>
STRINGLINE_BODY auto PlaceTensorRows(const Block& block, const GroupedRows& rows,
                                     const RowSpan& span) {
  const auto places = block.template scratch<int32_t>(kTensorOutputWords);
  block.each(kTensorRows, [&](int r) {
    const int64_t v = span.first + r;
    places.put(r, v < span.end ? static_cast<int32_t>(rows.InMemory(span, v)) : -1);
  });
  block.sync();
  return places;
}

// y[n,o] = sum over k of x[n,k] w[j,o,k] for the rows n of expert j
//
// x (N,K), w (j,O,K) -> y (N,O). `rows` are planned in tiles of kTensorRows, as in all below.
struct GroupedTensorLinear {
  const Bf16* x;
  const Bf16* w;
  Bf16* y;
  GroupedRows rows;
  int64_t size, width;  // K and O

  int64_t blocks() const { return rows.tiles() * TensorTiles(width); }
  int scratch_words() const { return kTensorRowsWords; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t tiles = TensorTiles(width);
    const RowSpan span = rows.OfTile(block.index() / tiles);
    if (span.first == span.end) return;
    const int64_t first = block.index() % tiles * kTensorColumns;
    const Bf16* const weights = w + span.matrix * width * size;
    const auto places = PlaceTensorRows(block, rows, span);
    const auto row_of_x = [&](int r) {
      const int32_t n = places.get(r);
      return n < 0 ? nullptr : x + n * size;
    };
    const auto row_of_w = [&](int o) {
      return first + o < width ? weights + (first + o) * size : nullptr;
    };
    TensorProductOf(
        block, TensorRows<kTensorRows>(size, row_of_x), TensorRows<kTensorColumns>(size, row_of_w),
        size, x, [](int) {},
        [&](int r, int c, const Vector<8>& v) {
          const int32_t n = places.get(r);
          if (n >= 0 && first + c < width) Store(y + n * width + first + c, v);
        });
  }
};

// dx[n,k] = sum over o of dy[n,o] w[j,o,k] for the rows n of expert j
//
// dy (N,O), w (j,O,K) -> dx (N,K)
struct GroupedTensorInputGrad {
  const Bf16* dy;
  const Bf16* w;
  Bf16* dx;
  GroupedRows rows;
  int64_t size, width;  // K and O

  int64_t blocks() const { return rows.tiles() * TensorTiles(size); }
  int scratch_words() const { return kTensorRowsWords; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t tiles = TensorTiles(size);
    const RowSpan span = rows.OfTile(block.index() / tiles);
    if (span.first == span.end) return;
    const int64_t first = block.index() % tiles * kTensorColumns;
    const Bf16* const weights = w + span.matrix * width * size;
    const auto places = PlaceTensorRows(block, rows, span);
    const auto row_of_dy = [&](int r) {
      const int32_t n = places.get(r);
      return n < 0 ? nullptr : dy + n * width;
    };
    const auto row_of_w = [&](int64_t o) { return o < width ? weights + o * size : nullptr; };
    TensorProductOf(
        block, TensorRows<kTensorRows>(width, row_of_dy),
        TensorTerms<kTensorColumns>(size, first, row_of_w), width, dy, [](int) {},
        [&](int r, int c, const Vector<8>& v) {
          const int32_t n = places.get(r);
          if (n >= 0 && first + c < size) Store(dx + n * size + first + c, v);
        });
  }
};

// dw[j,o,k] = sum over the rows n of expert j of dy[n,o] x[n,k], written or added
//
// dy (N,O), x (N,K) -> dw (j,O,K)
struct GroupedTensorWeightGrad {
  const Bf16* dy;
  const Bf16* x;
  float* dw;
  GroupedRows rows;
  int64_t size, width;  // K and O
  bool accumulate = false;

  int64_t blocks() const { return rows.matrices() * TensorTilesDown(width) * TensorTiles(size); }
  int scratch_words() const { return kTensorRowsWords; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t down = TensorTilesDown(width), across = TensorTiles(size);
    const RowSpan span = rows.OfMatrix(block.index() / (down * across));
    if (accumulate && span.first == span.end) return;
    const int64_t first_o = block.index() / across % down * kTensorRows;
    const int64_t first_k = block.index() % across * kTensorColumns;
    float* const to = dw + span.matrix * width * size;
    // The rows in memory of two steps: those of a step and those placed for the step after.
    const auto places = block.template scratch<int32_t>(kTensorOutputWords);
    auto cursors = block.template own<RowCursor, kTensorStep>();
    const auto place_rows = [&](int step) {
      block.each(cursors, [&](int r, RowCursor& cursor) {
        const int64_t v = span.first + int64_t{step} * kTensorStep + r;
        places.put(step % 2 * kTensorStep + r,
                   v < span.end ? static_cast<int32_t>(cursor.InMemory(rows, span, v)) : -1);
      });
    };
    const auto row_of = [&](const Bf16* from, int64_t columns) {
      return [&places, from, columns](int64_t i) {
        const int32_t n = places.get(static_cast<int>(i % (2 * kTensorStep)));
        return n < 0 ? nullptr : from + n * columns;
      };
    };
    TensorProductOf(block, TensorTerms<kTensorRows>(width, first_o, row_of(dy, width)),
                    TensorTerms<kTensorColumns>(size, first_k, row_of(x, size)),
                    span.end - span.first, dy, place_rows, [&](int r, int c, Vector<8> v) {
                      if (first_o + r >= width || first_k + c >= size) return;
                      float* const place = to + (first_o + r) * size + first_k + c;
                      if (accumulate) {
                        const auto before = Load(place, Width<8>());
                        STRINGLINE_UNROLL
                        for (int i = 0; i < 8; ++i) v[i] += before[i];
                      }
                      Store(place, v);
                    });
  }
};

}  // namespace stringline::cuda
