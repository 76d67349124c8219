// The assignment of rows to matrices of weights: one matrix for all, or that of each row's expert.
//
// The rows of an expert came from several ranks: in memory they lie rank by rank, and within a
// rank's expert by expert, so an expert's rows are not contiguous. Products number rows expert by
// expert, and within an expert rank by rank: virtual row v is row memory(v) in memory. Only the
// device knows the number of rows of an expert, so launches have as many tasks as there can be
// tiles of rows, and tasks past the last tile are idle.
#pragma once

#include "executor/cuda/bodies/block.h"

namespace stringline::cuda {

constexpr int kProductTile = 64;  // rows and columns of a task's tile of a product

// Rows first .. end, which are multiplied by the same matrix.
struct RowSpan {
  int64_t matrix, first, end;
};

// One matrix for all rows.
struct AllRows {
  int64_t rows;

  int64_t matrices() const { return 1; }
  int64_t tiles() const { return (rows + kProductTile - 1) / kProductTile; }
  STRINGLINE_BODY RowSpan OfMatrix(int64_t) const { return {0, 0, rows}; }
  STRINGLINE_BODY RowSpan OfTile(int64_t tile) const {
    const int64_t end = (tile + 1) * kProductTile;
    return {0, tile * kProductTile, end < rows ? end : rows};
  }
  STRINGLINE_BODY int64_t InMemory(const RowSpan&, int64_t v) const { return v; }
};

// The last i < count with at[i] <= value; at ascends, and at[0] <= value.
STRINGLINE_BODY int64_t LastUpTo(const int32_t* at, int64_t count, int64_t value) {
  int64_t low = 0, high = count;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (at[middle] <= value ? low : high) = middle;
  }
  return low;
}

// A matrix for the rows of each expert; made by PlanGroupedRows.
struct GroupedRows {
  const int32_t* plan;  // see PlanGroups
  int64_t rows, ranks, experts;
  int64_t tile;  // rows of a tile

  int64_t matrices() const { return experts; }
  int64_t tiles() const {
    const int64_t partial = rows < experts ? rows : experts;
    return (rows + (tile - 1) * partial) / tile;
  }

  STRINGLINE_BODY int64_t segments() const { return ranks * experts; }
  STRINGLINE_BODY const int32_t* in_memory() const { return plan; }
  STRINGLINE_BODY const int32_t* by_expert() const { return plan + segments() + 1; }
  STRINGLINE_BODY const int32_t* tiles_before() const { return plan + 2 * (segments() + 1); }

  STRINGLINE_BODY RowSpan OfMatrix(int64_t expert) const {
    return {expert, by_expert()[expert * ranks], by_expert()[(expert + 1) * ranks]};
  }
  // An empty span: no such tile.
  STRINGLINE_BODY RowSpan OfTile(int64_t index) const {
    if (index >= tiles_before()[experts]) return {0, 0, 0};
    RowSpan span = OfMatrix(LastUpTo(tiles_before(), experts, index));
    span.first += (index - tiles_before()[span.matrix]) * tile;
    if (span.end > span.first + tile) span.end = span.first + tile;
    return span;
  }
  STRINGLINE_BODY int64_t InMemory(const RowSpan& span, int64_t v) const {
    const int32_t* const segments = by_expert() + span.matrix * ranks;
    const int64_t rank = LastUpTo(segments, ranks, v);
    return in_memory()[rank * experts + span.matrix] + v - segments[rank];
  }
};

// InMemory for rows of one span in ascending order: a search for each segment, not for each row.
class RowCursor {
 public:
  STRINGLINE_BODY int64_t InMemory(const GroupedRows& rows, const RowSpan& span, int64_t v) {
    if (v >= end_) {
      const int32_t* const segments = rows.by_expert() + span.matrix * rows.ranks;
      const int64_t rank = LastUpTo(segments, rows.ranks, v);
      end_ = segments[rank + 1];
      shift_ = rows.in_memory()[rank * rows.experts + span.matrix] - segments[rank];
    }
    return v + shift_;
  }

 private:
  int32_t end_ = 0, shift_ = 0;
};

// From received I32 (X,e), the rows of each segment, three running sums, each with the total behind
// its last:
//
//   in_memory (X e)    the first row of segment (x, j) in memory
//   by_expert (e X)    the number of rows before those of (x, j), counted expert by expert
//   tiles_before (e)   the number of tiles of rows before those of expert j
//
// Corrupt counts would lead out of the rows, so counts are clamped to zero from below and to the
// last row from above. One task: segments are few.
constexpr int64_t GroupedPlanIntegers(int64_t ranks, int64_t experts) {
  return 2 * (ranks * experts + 1) + experts + 1;
}
struct PlanGroups {
  const int32_t* received;
  int32_t* plan;
  int64_t rows, ranks, experts;
  int64_t tile = kProductTile;

  static constexpr int kChunks = 64;
  int64_t blocks() const { return 1; }
  int scratch_words() const { return kChunks; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int segments = static_cast<int>(ranks * experts), e = static_cast<int>(experts);
    const int x = static_cast<int>(ranks), most = static_cast<int>(rows);
    int32_t* const in_memory = plan;
    int32_t* const by_expert = plan + segments + 1;
    int32_t* const tiles_before = by_expert + segments + 1;
    RunningSums(block, segments, most, in_memory, [&](int i) {
      return received[i] < 0 ? 0 : received[i] < most ? received[i] : most;
    });
    RunningSums(block, segments, most, by_expert, [&](int i) {
      const int segment = i % x * e + i / x;
      return in_memory[segment + 1] - in_memory[segment];
    });
    const int wide = static_cast<int>(tile);
    RunningSums(block, e, most, tiles_before, [&](int j) {
      const int count = by_expert[(j + 1) * x] - by_expert[j * x];
      return (count + wide - 1) / wide;
    });
  }

 private:
  // sums[i] = value(0) + .. + value(i - 1), but at most `most`.
  template <class Block, class Value>
  STRINGLINE_BODY void RunningSums(const Block& block, int count, int most, int32_t* sums,
                                   Value value) const {
    const auto of_chunks = block.template scratch<int32_t>(0);
    const int chunk = (count + kChunks - 1) / kChunks;
    const auto add = [most](int a, int b) { return a < most - b ? a + b : most; };
    block.each(kChunks, [&](int k) {
      int sum = 0;
      for (int i = k * chunk; i < count && i < (k + 1) * chunk; ++i) sum = add(sum, value(i));
      of_chunks.put(k, sum);
    });
    block.sync();
    block.once([&] {
      int sum = 0;
      for (int k = 0; k < kChunks; ++k) {
        const int own = of_chunks.get(k);
        of_chunks.put(k, sum);
        sum = add(sum, own);
      }
      sums[count] = sum;
    });
    block.sync();
    block.each(kChunks, [&](int k) {
      int sum = of_chunks.get(k);
      for (int i = k * chunk; i < count && i < (k + 1) * chunk; ++i) {
        sums[i] = sum;
        sum = add(sum, value(i));
      }
    });
    block.sync();
  }
};

// A plan for `rows` rows, of which `received` gives the number in use. `integers` has
// GroupedPlanIntegers, and the result reads them.
template <class Run>
GroupedRows PlanGroupedRows(const Run& run, const int32_t* received, int64_t rows, int64_t ranks,
                            int64_t experts, int32_t* integers, int64_t tile = kProductTile) {
  run(PlanGroups{received, integers, rows, ranks, experts, tile});
  return {integers, rows, ranks, experts, tile};
}

}  // namespace stringline::cuda
