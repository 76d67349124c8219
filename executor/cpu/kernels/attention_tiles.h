// The products inside attention, in registers, for kBlock queries of one head at a time.
//
// Weights and scores of a block are held with the queries side by side: one row of kBlock floats
// for every key. So a softmax is a sum down the rows. Everything else has its channels side by
// side, in rows of `wide` floats: whole vectors. Keys beyond a query are never multiplied with its
// weights, not even by 0: a NaN there stays where it is.
#pragma once

#include <algorithm>
#include <cstdint>

#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {

constexpr int64_t kBlock = 2 * kLanes;

// A mask of the lanes whose queries, numbered from `first`, see key `key`.
inline IntVec Seeing(int64_t key, int64_t first) {
  const IntVec lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane >= static_cast<int32_t>(key - first);
}

// Calls body.operator()<R>(i) with R = 8, then 4, 2 and 1, until `count` rows are done.
template <typename Body>
inline void InTiles(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) body.template operator()<8>(i);
  if (count - i >= 4) body.template operator()<4>(i), i += 4;
  if (count - i >= 2) body.template operator()<2>(i), i += 2;
  if (count - i >= 1) body.template operator()<1>(i);
}

// out[r][v] = sum over d < depth of keys[r][d] block[d][v]: R keys by V vectors of queries.
template <int R, int V>
inline void ScoreTile(const float* keys, int64_t wide, const float* block, int64_t depth,
                      float* out) {
  Vec sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = Vec{};
  }
  for (int64_t d = 0; d < depth; ++d) {
    Vec queries[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) queries[v] = Load(block + d * kBlock + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const float element = keys[r * wide + d];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] += element * queries[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) Store(out + r * kBlock + v * kLanes, sum[r][v]);
  }
}

// scores[j][i] = sum over d of keys[j][d] block[d][i], for the `first` keys before the block and
// `rows` keys of its own. The second half of the latter are not multiplied with the first half of
// the queries, which come before them.
inline void Scores(const float* keys, int64_t wide, const float* block, int64_t depth,
                   int64_t first, int64_t rows, float* scores) {
  const int64_t seen = first + std::min(rows, kLanes);
  InTiles(seen, [&]<int R>(int64_t j) {
    ScoreTile<R, 2>(keys + j * wide, wide, block, depth, scores + j * kBlock);
  });
  InTiles(first + rows - seen, [&]<int R>(int64_t j) {
    ScoreTile<R, 1>(keys + (seen + j) * wide, wide, block + kLanes, depth,
                    scores + (seen + j) * kBlock + kLanes);
  });
}

// out[r][v] = sum over keys j < before of weights[j][r] values[j][v], and with `own` over the keys
// j <= before + r: R queries by V vectors of channels.
template <int R, int V, bool own>
inline void MixTile(const float* weights, const float* values, int64_t wide, int64_t before,
                    float* out) {
  Vec sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = Vec{};
  }
  const auto add = [&](int64_t j, int unseeing) {
    Vec channels[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) channels[v] = Load(values + j * wide + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      if (r < unseeing) continue;
      const float element = weights[j * kBlock + r];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] += element * channels[v];
    }
  };
  for (int64_t j = 0; j < before; ++j) add(j, 0);
#pragma GCC unroll 8
  for (int r = 0; r < R && own; ++r) add(before + r, r);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) Store(out + r * wide + v * kLanes, sum[r][v]);
  }
}

template <int V, bool own>
inline void MixChannels(const float* weights, const float* values, int64_t wide, int64_t first,
                        int64_t rows, float* out) {
  InTiles(rows, [&]<int R>(int64_t i) {
    MixTile<R, V, own>(weights + i, values, wide, own ? first + i : first, out + i * wide);
  });
}

// out[i][d] = sum over the keys j that query i sees of weights[j][i] values[j][d], with rows of
// `wide` channels, a multiple of 16: the `first` keys before the block's `rows` queries and, with
// `own`, its keys up to the query.
template <bool own>
inline void Mix(const float* weights, const float* values, int64_t wide, int64_t first,
                int64_t rows, float* out) {
  int64_t d = 0;
  for (; d + 2 * kLanes <= wide; d += 2 * kLanes) {
    MixChannels<2, own>(weights, values + d, wide, first, rows, out + d);
  }
  if (d < wide) MixChannels<1, own>(weights, values + d, wide, first, rows, out + d);
}

// out[r][v] (+)= sum over queries i < rows of weights[r][i] block[i][v]: R keys by V vectors of
// channels. With `own`, key r is number r of the block's and seen from query r on.
template <int R, int V, bool own>
inline void SpreadTile(const float* weights, const float* block, int64_t wide, int64_t rows,
                       float* out) {
  Vec sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = own ? Vec{} : Load(out + r * wide + v * kLanes);
  }
  const auto add = [&](int64_t i, int seeing) {
    Vec channels[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) channels[v] = Load(block + i * wide + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      if (r >= seeing) continue;
      const float element = weights[r * kBlock + i];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] += element * channels[v];
    }
  };
  int64_t i = 0;
  if (own) {
#pragma GCC unroll 8
    for (int r = 0; r + 1 < R; ++r) add(i++, r + 1);
  }
  for (; i < rows; ++i) add(i, R);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) Store(out + r * wide + v * kLanes, sum[r][v]);
  }
}

template <int V, bool own>
inline void SpreadChannels(const float* weights, const float* block, int64_t wide, int64_t first,
                           int64_t rows, float* out) {
  InTiles(first, [&]<int R>(int64_t j) {
    SpreadTile<R, V, false>(weights + j * kBlock, block, wide, rows, out + j * wide);
  });
  InTiles(own ? rows : 0, [&]<int R>(int64_t j) {
    SpreadTile<R, V, true>(weights + (first + j) * kBlock + j, block + j * wide, wide, rows - j,
                           out + (first + j) * wide);
  });
}

// out[j][d] += sum over the queries i that see key j of weights[j][i] block[i][d], with rows of
// `wide` channels, a multiple of 16. The block's own keys are overwritten: no earlier block sees
// them. Without `own` the block has queries only.
template <bool own>
inline void Spread(const float* weights, const float* block, int64_t wide, int64_t first,
                   int64_t rows, float* out) {
  int64_t d = 0;
  for (; d + 2 * kLanes <= wide; d += 2 * kLanes) {
    SpreadChannels<2, own>(weights, block + d, wide, first, rows, out + d);
  }
  if (d < wide) SpreadChannels<1, own>(weights, block + d, wide, first, rows, out + d);
}

}  // namespace stringline::cpu
