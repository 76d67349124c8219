// RMS norm of every head of queries, with one gamma, and of every head of keys, with another.
#pragma once

#include "executor/cuda/bodies/norms.h"

namespace stringline::cuda {

// A row of packed queries, keys and values: (H + 2K) heads of D channels.
struct PackedHeads {
  int64_t queries, keys, size;

  STRINGLINE_BODY int64_t normed() const { return queries + keys; }
  STRINGLINE_BODY int64_t all() const { return queries + 2 * keys; }
};

template <class Block, int N, typename T>
STRINGLINE_BODY void CopyRow(const Block& block, const Steps<N>& steps, const T* x, T* y) {
  EachStep(block, steps, [&](int c, auto width) { Store(y + c, Load(x + c, width)); });
}

// qkv (N,(H+2K)D), query gamma (D), key gamma (D) -> y as qkv, rstd (N,H+K); values are copied. y
// may be qkv.
template <typename T, typename P>
struct HeadNorm {
  const T* x;
  const P* query_gamma;
  const P* key_gamma;
  T* y;
  float* rstd;
  int64_t rows;
  PackedHeads heads;
  float epsilon;

  int64_t blocks() const { return rows * (heads.queries + 2 * heads.keys); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index() / heads.all(), head = block.index() % heads.all();
    const T* const from = x + block.index() * heads.size;
    T* const to = y + block.index() * heads.size;
    const Steps<kWide<T>> steps(
        heads.size, VectorsFit(heads.size, x, y) && VectorsFit(heads.size, query_gamma, key_gamma));
    if (head >= heads.normed()) return CopyRow(block, steps, from, to);
    const P* const none = nullptr;
    const NormStatistics row =
        NormRow<NormKind::kRms>(block, steps, from, head < heads.queries ? query_gamma : key_gamma,
                                none, heads.size, epsilon, to);
    block.once([&] { rstd[n * heads.normed() + head] = row.rstd; });
  }
};

constexpr int64_t HeadNormGradTasks(int64_t heads_of_all_rows) {
  const int64_t tasks = (heads_of_all_rows + 15) / 16;
  return tasks < 4096 ? tasks : 4096;
}

// dy as qkv, qkv, both gammas, rstd -> dqkv, and partial (blocks(),2 D): sums for the queries'
// gamma, then for the keys'; column_sum.h adds them up.
template <typename T, typename P>
struct HeadNormGrad {
  const T* dy;
  const T* x;
  const P* query_gamma;
  const P* key_gamma;
  const float* rstd;
  T* dx;
  float* partial;
  int64_t rows;
  PackedHeads heads;

  int64_t blocks() const { return HeadNormGradTasks(rows * (heads.queries + 2 * heads.keys)); }
  int64_t partial_columns() const { return 2 * heads.size; }
  int scratch_words() const { return static_cast<int>(partial_columns()); }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int size = static_cast<int>(heads.size);
    const Steps<kWide<T>> steps(
        size, VectorsFit(size, dy, x, dx) && VectorsFit(size, query_gamma, key_gamma));
    for (int k = 0; k < 2; ++k) {
      ClearSums(block, steps, size, 0, block.template scratch<float>(k * size));
    }
    const RowRange range(rows * heads.all(), block.index(), block.count());
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t head = i % heads.all(), at = i * size;
      if (head >= heads.normed()) {
        CopyRow(block, steps, dy + at, dx + at);
        continue;
      }
      const bool is_key = head >= heads.queries;
      const NormStatistics row = {0.0f, rstd[i / heads.all() * heads.normed() + head]};
      NormRowGrad<NormKind::kRms>(block, steps, dy + at, x + at, is_key ? key_gamma : query_gamma,
                                  row, size, static_cast<const T*>(nullptr), dx + at,
                                  block.template scratch<float>(is_key ? size : 0));
    }
    for (int k = 0; k < 2; ++k) {
      StoreSums(block, steps, size, 0, block.template scratch<float>(k * size),
                partial + block.index() * 2 * size + k * size);
    }
  }
};

}  // namespace stringline::cuda
