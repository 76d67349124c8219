// Rows of a table by number, and the gradient of the table.
//
// The gradient adds up the rows of dy with the same token, without atomics: positions are sorted by
// token (stably, so those of a token ascend), the sorted positions cut into segments of kSegment,
// and a token's rows summed segment by segment; then the segments' sums are added in order. So a
// frequent token does not keep a single task busy while all others wait.
#pragma once

#include <cmath>

#include "executor/cuda/bodies/counting_sort.h"

namespace stringline::cuda {

// y[n,:] = table[token[n],:]
//
// token I32 (N), table (V,C) -> y (N,C). A token outside the table gives NaN.
template <typename T>
struct Embedding {
  const int32_t* token;
  const T* table;
  T* y;
  int64_t count, vocabulary, columns;

  int64_t blocks() const { return count; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const int32_t row = token[n];
    const bool is_there = row >= 0 && row < vocabulary;
    const T* const from = table + (is_there ? row : 0) * columns;
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, table, y));
    EachStep(block, steps, [&](int c, auto width) {
      auto v = Load(from + c, width);
      if (!is_there) {
        for (int i = 0; i < width.kCount; ++i) v[i] = NAN;
      }
      Store(y + n * columns + c, v);
    });
  }
};

constexpr int kSegment = 32;

// order I32 (N): the positions sorted by token.
struct SortedTokens {
  const int32_t* token;
  const int32_t* order;
  int64_t count;

  STRINGLINE_BODY int32_t at(int64_t i) const { return token[order[i]]; }
  // True if i - 1 has the same token.
  STRINGLINE_BODY bool goes_on(int64_t i) const { return i > 0 && i < count && at(i) == at(i - 1); }
  // The end of the run that begins at i: the end of the token, or of the segment.
  STRINGLINE_BODY int64_t end_of(int64_t i) const {
    const int64_t next = (i / kSegment + 1) * kSegment;
    int64_t end = i + 1;
    while (end < next && goes_on(end)) ++end;
    return end;
  }
};

// store(c, sum, width) for the columns of the sum over the sorted rows from `begin` to its end_of.
template <class Block, typename T, class F>
STRINGLINE_BODY void SumRowsOfToken(const Block& block, const SortedTokens& tokens, const T* dy,
                                    int64_t columns, int64_t begin, F store) {
  const int64_t end = tokens.end_of(begin);
  const Steps<kWide<T>> steps(columns, VectorsFit(columns, dy));
  EachStep(block, steps, [&](int c, auto width) {
    auto sum = Load(dy + tokens.order[begin] * columns + c, width);
    for (int64_t i = begin + 1; i < end; ++i) {
      const auto v = Load(dy + tokens.order[i] * columns + c, width);
      for (int k = 0; k < width.kCount; ++k) sum[k] += v[k];
    }
    store(c, sum, width);
  });
}

// partial[s,:]: the sum over the start of segment s that continues a token of the segment before.
// Other rows of partial are not written.
//
// dy (N,C) -> partial (N / kSegment + 1,C)
template <typename T>
struct EmbeddingGradSegments {
  SortedTokens tokens;
  const T* dy;
  float* partial;
  int64_t columns;

  int64_t blocks() const { return (tokens.count + kSegment - 1) / kSegment; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t begin = block.index() * kSegment;
    if (!tokens.goes_on(begin)) return;
    SumRowsOfToken(block, tokens, dy, columns, begin, [&](int c, const auto& sum, auto width) {
      for (int k = 0; k < width.kCount; ++k) {
        partial[block.index() * columns + c + k] = sum[k];
      }
    });
  }
};

// dtable[token[n],:] += dy[n,:]: a task for each sorted position; only a token's first task works.
// Rows of absent tokens are not written.
template <typename T>
struct EmbeddingGrad {
  SortedTokens tokens;
  const T* dy;
  const float* partial;
  float* dtable;
  int64_t vocabulary, columns;

  int64_t blocks() const { return tokens.count; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t begin = block.index();
    const int32_t row = tokens.at(begin);
    if (tokens.goes_on(begin) || row < 0 || row >= vocabulary) return;
    float* const to = dtable + row * columns;
    SumRowsOfToken(block, tokens, dy, columns, begin, [&](int c, auto sum, auto width) {
      for (int64_t s = begin / kSegment + 1; tokens.goes_on(s * kSegment); ++s) {
        if (tokens.at(s * kSegment) != row) break;
        for (int k = 0; k < width.kCount; ++k) sum[k] += partial[s * columns + c + k];
      }
      for (int k = 0; k < width.kCount; ++k) to[c + k] += sum[k];
    });
  }
};

// The sizes of the gradient's workspace: integers and floats.
constexpr int kDigitBits = 8;
constexpr int64_t EmbeddingGradIntegers(int64_t count) {
  return 2 * count + SortCounts(count, 1 << kDigitBits) + (1 << kDigitBits) + 1;
}
constexpr int64_t EmbeddingGradFloats(int64_t count, int64_t columns) {
  return (count / kSegment + 1) * columns;
}

// order I32 (N): the positions sorted by token, in integers[0 .. N-1]; by launches of run(body).
template <class Run>
SortedTokens SortTokens(const Run& run, const int32_t* token, int64_t count, int64_t vocabulary,
                        int32_t* integers) {
  int passes = 1;
  while (passes * kDigitBits < 32 && vocabulary > int64_t{1} << passes * kDigitBits) ++passes;
  int32_t* const first = integers;
  int32_t* const second = integers + count;
  int32_t* const counts = integers + 2 * count;
  int32_t* const starts = counts + SortCounts(count, 1 << kDigitBits);
  const int32_t* from = nullptr;
  for (int pass = 0; pass < passes; ++pass) {
    int32_t* const to = (passes - 1 - pass) % 2 == 0 ? first : second;
    const SortKeys keys{token, from, count, 1 << kDigitBits, pass * kDigitBits, true};
    SortByKey(run, keys, 0, counts, starts, to, nullptr, nullptr);
    from = to;
  }
  return {token, first, count};
}

// dtable[token[n],:] += dy[n,:] by launches of run(body).
template <class Run, typename T>
void AddEmbeddingGrad(const Run& run, const int32_t* token, const T* dy, float* dtable,
                      int64_t count, int64_t vocabulary, int64_t columns, int32_t* integers,
                      float* floats) {
  const SortedTokens tokens = SortTokens(run, token, count, vocabulary, integers);
  run(EmbeddingGradSegments<T>{tokens, dy, floats, columns});
  run(EmbeddingGrad<T>{tokens, dy, floats, dtable, vocabulary, columns});
}

}  // namespace stringline::cuda
