// Causal attention over packed queries, keys and values, and its gradient. For each head h of
// queries, with the keys and values of head h K / H, rounded down:
//
//   s[i,j] = q[i] . k[j] / sqrt(D) for j <= i,     lse[i] = log of the sum over j <= i of e^s[i,j]
//   y[i] = sum over j <= i of p[i,j] v[j],         p[i,j] = e^(s[i,j] - lse[i])
//
// With a past, P rows of keys and values stand before those of the sequence, and every query sees
// them: rows are numbered from the first of the past, and the queries are rows P, P + 1, … In a
// packed sequence query i sees the rows from i - positions[i] on, the beginning of its document.
// Queries of cross attention have no keys of their own, and see all rows of the past. Bodies have a
// parameter, Sight: no code asks for a past or a document where there is none.
//
// A task has a tile of queries and goes through the tiles of keys up to its own; the largest score
// of a query so far and the sum of e^(score - largest) are kept as it goes, and what was summed
// under a smaller largest score is scaled down. With delta[i] = dy[i] . y[i],
//
//   ds[i,j] = p[i,j] (dy[i] . v[j] - delta[i])
//   dq[i] = sum over j of ds[i,j] k[j] / sqrt(D)
//   dk[j] = sum over i of ds[i,j] q[i] / sqrt(D),  dv[j] = sum over i of p[i,j] dy[i]
//
// the last two over all heads of queries that they serve. dq has tasks as y has; dk and dv have one
// for a tile of keys, which goes through the heads of queries it serves and their tiles from its
// own on. So every element has one writer, and every sum an order given by the shape.
//
// A value that a query does not see counts times 0 if it lies in a tile of which the query sees a
// row, or another query of its tile does: what is not finite there shows.
#pragma once

#include <cfloat>
#include <cmath>
#include <type_traits>

#include "executor/cuda/bodies/head_norm.h"
#include "executor/cuda/bodies/tiles.h"

namespace stringline::cuda {

constexpr int kMostHeadSize = 256;

// The rows up to its own that a query sees: of its sequence, of the past before it too, or of its
// document alone; or all rows of the past, without any of its own.
enum class Sight { kSequence, kPast, kDocument, kCross };
constexpr bool HasPast(Sight sight) { return sight == Sight::kPast || sight == Sight::kCross; }

// Tiles for heads of up to kSize channels.
template <int kSize>
struct AttentionTiles {
  static constexpr int kRows = kSize <= 128 ? 64 : 32;  // of queries, and of keys
  static constexpr int kApart = kRows / 4;
  static constexpr int kColumns = kSize / 4;           // items side by side in a tile of rows
  static constexpr int kScores = kApart * kApart;      // items of a tile of scores
  static constexpr int kChannels = kApart * kColumns;  // items of a tile of rows

  // Words of a tile of rows, and of one of scores.
  static constexpr int kRowWords = kRows * TileStride(kSize);
  static constexpr int kScoreWords = kRows * TileStride(kRows);
  static constexpr int kPartialWords = kApart * TileStride(kRows);
};

// The coordinates of a task: a tile of positions of a head of a sequence. Long tasks come first.
struct AttentionTask {
  int64_t sequence, head, first;

  STRINGLINE_BODY AttentionTask(int64_t index, int64_t batch, int64_t heads, int64_t tile, int rows)
      : sequence(index % (batch * heads) / heads), head(index % heads), first(tile * rows) {}
};

// The rows of a head of a sequence.
template <typename T>
struct HeadRows {
  T* data;
  int64_t stride, first, positions;

  // The row of position first + r; null beyond the last.
  STRINGLINE_BODY T* operator()(int r) const {
    return first + r < positions ? data + (first + r) * stride : nullptr;
  }
};

// The rows of a head of keys or values: those of the past, then the sequence's own.
template <typename T>
struct JoinedRows {
  HeadRows<T> past, own;  // own.first: counted from the sequence's first row

  STRINGLINE_BODY T* operator()(int r) const {
    return past.first + r < past.positions ? past(r) : own(r);
  }
};

// Sizes, and the places of heads.
struct AttentionShape {
  int64_t batch, positions;
  PackedHeads heads;
  int64_t past = 0;
  bool cross = false;  // a row of qkv has queries only

  // In qkv, `heads_before` heads into each row; and in y.
  template <typename T>
  STRINGLINE_BODY HeadRows<T> Packed(T* qkv, const AttentionTask& task, int64_t heads_before,
                                     int64_t first) const {
    const int64_t stride = heads.all() * heads.size;
    return {qkv + task.sequence * positions * stride + heads_before * heads.size, stride, first,
            positions};
  }
  template <typename T>
  STRINGLINE_BODY HeadRows<T> Mixed(T* y, int64_t sequence, int64_t head, int64_t first) const {
    const int64_t stride = heads.queries * heads.size;
    return {y + sequence * positions * stride + head * heads.size, stride, first, positions};
  }
  // The queries of a head, or their gradients.
  template <Sight kSight, typename T>
  STRINGLINE_BODY HeadRows<T> Queries(T* qkv, const AttentionTask& task, int64_t head,
                                      int64_t first) const {
    if constexpr (kSight == Sight::kCross) {
      return Mixed(qkv, task.sequence, head, first);
    } else {
      return Packed(qkv, task, head, first);
    }
  }
  // The keys, or values, of a head from row `first` on; `keys_before` heads stand before it among
  // the keys and values of a row, and a row of the past has nothing else.
  template <Sight kSight, typename T>
  STRINGLINE_BODY auto Keys(T* qkv, T* past_rows, const AttentionTask& task, int64_t keys_before,
                            int64_t first) const {
    const int64_t stride = 2 * heads.keys * heads.size;
    const HeadRows<T> before = {
        past_rows + task.sequence * past * stride + keys_before * heads.size, stride, first, past};
    if constexpr (kSight == Sight::kCross) {
      return before;
    } else {
      const HeadRows<T> own =
          Packed(qkv, task, heads.queries + keys_before, first - Before(HasPast(kSight)));
      if constexpr (kSight == Sight::kPast) {
        return JoinedRows<T>{before, own};
      } else {
        return own;
      }
    }
  }
  // The rows before the first query; with_past: kPast, a constant.
  STRINGLINE_BODY int64_t Before(bool with_past) const { return with_past ? past : 0; }
  // The end of the rows that a tile of queries sees.
  template <Sight kSight>
  STRINGLINE_BODY int64_t SeenFrom(int64_t first, int rows) const {
    if constexpr (kSight == Sight::kCross) {
      return past;
    } else {
      return Before(HasPast(kSight)) + (first + rows < positions ? first + rows : positions);
    }
  }
  STRINGLINE_BODY int64_t KeysOf(int64_t head) const { return head / (heads.queries / heads.keys); }
  STRINGLINE_BODY float scale() const { return 1.0f / std::sqrt(static_cast<float>(heads.size)); }
  STRINGLINE_BODY int wide() const { return static_cast<int>((heads.size + 3) / 4 * 4); }
};

template <typename T>
struct AttentionArguments {
  const T* qkv;  // (B,T,(H+2K)D); of cross attention (B,T,HD)
  T* y;          // (B,T,HD)
  float* lse;    // (B,H,T)
  AttentionShape shape;
  const T* past = nullptr;             // (B,P,2KD), where shape.past is not 0
  const int32_t* positions = nullptr;  // (B,T), of a packed sequence
};

// known[i]: the position of row first + i in its document; 0 beyond the last row.
template <int kRows, class Block, class Known>
STRINGLINE_BODY void FillPositions(const Block& block, const int32_t* positions,
                                   const AttentionShape& shape, const AttentionTask& task,
                                   int64_t first, const Known& known) {
  const int32_t* const row = positions + task.sequence * shape.positions;
  block.each(kRows, [&](int i) { known.put(i, first + i < shape.positions ? row[first + i] : 0); });
}

// The first row of the first tile that the queries from `first` on see.
template <Sight kSight>
STRINGLINE_BODY int64_t FirstTile(const int32_t* positions, const AttentionShape& shape,
                                  const AttentionTask& task, int64_t first, int rows) {
  if constexpr (kSight == Sight::kDocument) {
    return (first - positions[task.sequence * shape.positions + first]) / rows * rows;
  } else {
    return 0;
  }
}

// For heads of up to kSize channels; see RunAttention.
template <typename T, int kSize, Sight kSight = Sight::kSequence>
struct Attention {
  AttentionArguments<T> at;

  static constexpr bool kPast = HasPast(kSight), kPacked = kSight == Sight::kDocument;

  using Tiles = AttentionTiles<kSize>;
  static constexpr int kRows = Tiles::kRows, kApart = Tiles::kApart, kColumns = Tiles::kColumns;
  // Words of scratch memory: queries, keys or values, weights, partial results, statistics.
  static constexpr int kKeysAt = Tiles::kRowWords, kWeightsAt = 2 * Tiles::kRowWords,
                       kPartialAt = kWeightsAt + Tiles::kScoreWords,
                       kMostAt = kPartialAt + Tiles::kPartialWords,
                       kPositionsAt = kMostAt + 3 * kRows;

  int64_t tiles() const { return (at.shape.positions + kRows - 1) / kRows; }
  int64_t blocks() const { return at.shape.batch * at.shape.heads.queries * tiles(); }
  int scratch_words() const { return kPositionsAt + (kPacked ? kRows : 0); }

  template <class Block>
  // NOLINTNEXTLINE(readability-function-size): one loop over tiles, whose state is in registers.
  STRINGLINE_BODY void operator()(const Block& block) const {
    const AttentionShape& shape = at.shape;
    const int64_t heads = shape.heads.queries, size = shape.heads.size;
    const int64_t tile = (block.count() - 1 - block.index()) / (shape.batch * heads);
    const AttentionTask task(block.index(), shape.batch, heads, tile, kRows);
    const bool fit = VectorsFit(size, at.qkv, at.past, at.y);
    const int wide = shape.wide();
    const auto queries = TileAt(block, 0, kSize), keys = TileAt(block, kKeysAt, kSize);
    const auto weights = TileAt(block, kWeightsAt, kRows),
               partial = TileAt(block, kPartialAt, kRows);
    const auto most = block.template scratch<float>(kMostAt);
    const auto factor = block.template scratch<float>(kMostAt + kRows);
    const auto sum = block.template scratch<float>(kMostAt + 2 * kRows);
    const auto positions = block.template scratch<int32_t>(kPositionsAt);

    FillTile<kRows, kSize>(block, queries, size, fit, shape.scale(),
                           shape.Queries<kSight>(at.qkv, task, task.head, task.first));
    // A query may see no row of the first tile: then a difference of infinities would be no number.
    block.each(kRows, [&](int i) {
      most.put(i, kPacked ? -FLT_MAX : -INFINITY);
      sum.put(i, 0.0f);
    });
    if constexpr (kPacked) {
      FillPositions<kRows>(block, at.positions, shape, task, task.first, positions);
    }
    auto scores = block.template own<Outputs, Tiles::kScores>();
    auto mixed = block.template own<Outputs, Tiles::kChannels>();
    const int64_t key_head = shape.KeysOf(task.head), query_row = shape.Before(kPast) + task.first;
    const int64_t end = shape.SeenFrom<kSight>(task.first, kRows);
    for (int64_t first = FirstTile<kSight>(at.positions, shape, task, task.first, kRows);
         first < end; first += kRows) {
      FillTile<kRows, kSize>(block, keys, size, fit, 1.0f,
                             shape.Keys<kSight>(at.qkv, at.past, task, key_head, first));
      block.sync();
      block.each(scores, [&](int i, Outputs& s) {
        const int q = i / kApart, k = i % kApart;
        s = {};
        AddDots<kApart>(queries, keys, q, k, wide, s);
        STRINGLINE_UNROLL
        for (int r = 0; r < 4; ++r) {
          float largest = -INFINITY;
          STRINGLINE_UNROLL
          for (int c = 0; c < 4; ++c) {
            const int64_t row = query_row + q + r * kApart, key = first + k + c * kApart;
            bool sees = kSight == Sight::kCross ? key < shape.past : key <= row;
            if constexpr (kPacked) sees = sees && row - key <= positions.get(q + r * kApart);
            s.row[r][c] = sees ? s.row[r][c] : -INFINITY;
            largest = std::fmax(largest, s.row[r][c]);
          }
          partial.put(k, q + r * kApart, largest);
        }
      });
      block.sync();
      block.each(kRows, [&](int i) {
        const float before = most.get(i);
        float largest = before;
        for (int k = 0; k < kApart; ++k) largest = std::fmax(largest, partial.get(k, i));
        factor.put(i, std::exp(before - largest));
        most.put(i, largest);
      });
      const auto& values = keys;
      FillTile<kRows, kSize>(
          block, values, size, fit, 1.0f,
          shape.Keys<kSight>(at.qkv, at.past, task, key_head + shape.heads.keys, first));
      block.sync();
      block.each(scores, [&](int i, Outputs& s) {
        const int q = i / kApart, k = i % kApart;
        STRINGLINE_UNROLL
        for (int r = 0; r < 4; ++r) {
          const int row = q + r * kApart;
          float total = 0;
          STRINGLINE_UNROLL
          for (int c = 0; c < 4; ++c) {
            const float weight = std::exp(s.row[r][c] - most.get(row));
            weights.put(row, k + c * kApart, weight);
            total += weight;
          }
          partial.put(k, row, total);
        }
      });
      block.sync();
      block.each(kRows, [&](int i) {
        float total = sum.get(i) * factor.get(i);
        for (int k = 0; k < kApart; ++k) total += partial.get(k, i);
        sum.put(i, total);
      });
      block.each(mixed, [&](int i, Outputs& s) {
        const int q = i / kColumns, d = i % kColumns;
        if (4 * d >= wide) return;
        STRINGLINE_UNROLL
        for (int r = 0; r < 4; ++r) {
          const float f = factor.get(q + r * kApart);
          STRINGLINE_UNROLL
          for (int c = 0; c < 4; ++c) s.row[r][c] *= f;
        }
        AddMix<kApart>(weights, values, q, d, kRows, s);
      });
      block.sync();
    }

    const HeadRows<T> to = shape.Mixed(at.y, task.sequence, task.head, task.first);
    block.each(mixed, [&](int i, Outputs& s) {
      const int q = i / kColumns, d = i % kColumns;
      STRINGLINE_UNROLL
      for (int r = 0; r < 4; ++r) {
        T* const row = to(q + r * kApart);
        if (row == nullptr) continue;
        const float f = 1.0f / sum.get(q + r * kApart);
        STRINGLINE_UNROLL
        for (int c = 0; c < 4; ++c) s.row[r][c] *= f;
        StoreFour(row, 4 * d, size, fit, s.row[r]);
      }
    });
    float* const lse = at.lse + (task.sequence * heads + task.head) * shape.positions;
    block.each(kRows, [&](int i) {
      if (task.first + i < shape.positions) {
        lse[task.first + i] = most.get(i) + std::log(sum.get(i));
      }
    });
  }
};

template <typename T>
struct AttentionGradArguments {
  const T* dy;  // (B,T,HD), as is y
  const T* qkv;
  const T* y;
  const float* lse;  // (B,H,T)
  float* delta;      // workspace: AttentionGradFloats
  T* dqkv;
  AttentionShape shape;
  const T* past = nullptr;  // (B,P,2KD), where shape.past is not 0; as is dpast
  T* dpast = nullptr;
  const int32_t* positions = nullptr;  // (B,T), of a packed sequence
};

constexpr int64_t AttentionGradFloats(const AttentionShape& shape) {
  return shape.batch * shape.heads.queries * shape.positions;
}

// delta (B,H,T): a task for a head of a position.
template <typename T>
struct AttentionDelta {
  AttentionGradArguments<T> at;

  int64_t blocks() const { return AttentionGradFloats(at.shape); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const AttentionShape& shape = at.shape;
    const int64_t heads = shape.heads.queries, size = shape.heads.size;
    const int64_t n = block.index() / heads, head = block.index() % heads;
    const T* const dy = at.dy + block.index() * size;
    const T* const y = at.y + block.index() * size;
    const Steps<kWide<T>> steps(size, VectorsFit(size, at.dy, at.y));
    const Sums<1> sum = SumsOverSteps<1>(block, steps, [&](int c, auto width, Sums<1>& s) {
      const auto a = Load(dy + c, width), b = Load(y + c, width);
      for (int i = 0; i < width.kCount; ++i) s[0] += a[i] * b[i];
    });
    const int64_t row = n / shape.positions * heads + head;
    block.once([&] { at.delta[row * shape.positions + n % shape.positions] = sum[0]; });
  }
};

// Scratch memory of the tasks of both gradients: tiles of queries, dy, keys and values, a tile of
// scores, and the statistics of each query.
template <typename T, int kSize, Sight kSight>
struct AttentionGradTiles {
  static constexpr bool kPast = HasPast(kSight), kPacked = kSight == Sight::kDocument;
  using Tiles = AttentionTiles<kSize>;
  static constexpr int kRows = Tiles::kRows, kApart = Tiles::kApart;
  static constexpr int kLseAt = 4 * Tiles::kRowWords + Tiles::kScoreWords;
  static constexpr int kPositionsAt = kLseAt + 2 * kRows;
  static constexpr int kWords = kPositionsAt + (kPacked ? kRows : 0);

  template <class Block>
  static STRINGLINE_BODY auto Rows(const Block& block, int which) {
    return TileAt(block, which * Tiles::kRowWords, kSize);
  }
  template <class Block>
  static STRINGLINE_BODY auto Scores(const Block& block) {
    return TileAt(block, 4 * Tiles::kRowWords, kRows);
  }

  // The queries of a head from `first` on, times the scale, with their dy and statistics.
  template <class Block>
  static STRINGLINE_BODY void FillQueries(const Block& block, const AttentionGradArguments<T>& at,
                                          const AttentionTask& task, int64_t head, int64_t first,
                                          bool fit) {
    const AttentionShape& shape = at.shape;
    const int64_t size = shape.heads.size;
    FillTile<kRows, kSize>(block, Rows(block, 0), size, fit, shape.scale(),
                           shape.Queries<kSight>(at.qkv, task, head, first));
    FillTile<kRows, kSize>(block, Rows(block, 1), size, fit, 1.0f,
                           shape.Mixed(at.dy, task.sequence, head, first));
    const auto known = block.template scratch<float>(kLseAt);
    const int64_t row = (task.sequence * shape.heads.queries + head) * shape.positions;
    block.each(kRows, [&](int i) {
      const bool is_there = first + i < shape.positions;
      known.put(i, is_there ? at.lse[row + first + i] : 0.0f);
      known.put(kRows + i, is_there ? at.delta[row + first + i] : 0.0f);
    });
    if constexpr (kPacked) {
      FillPositions<kRows>(block, at.positions, shape, task, first,
                           block.template scratch<int32_t>(kPositionsAt));
    }
  }
  template <class Block>
  static STRINGLINE_BODY void FillKeys(const Block& block, const AttentionGradArguments<T>& at,
                                       const AttentionTask& task, int64_t key_head, int64_t first,
                                       bool fit) {
    const AttentionShape& shape = at.shape;
    FillTile<kRows, kSize>(block, Rows(block, 2), shape.heads.size, fit, 1.0f,
                           shape.Keys<kSight>(at.qkv, at.past, task, key_head, first));
    FillTile<kRows, kSize>(
        block, Rows(block, 3), shape.heads.size, fit, 1.0f,
        shape.Keys<kSight>(at.qkv, at.past, task, key_head + shape.heads.keys, first));
  }

  // p and ds of item i, for the tiles in scratch memory; `ahead`: the first query's row minus the
  // first key's, or, in cross attention, the number of rows from the first key on.
  template <class Block>
  static STRINGLINE_BODY void Weigh(const Block& block, int i, int wide, int64_t ahead, Outputs& p,
                                    Outputs& ds) {
    const int q = i / kApart, k = i % kApart;
    const auto known = block.template scratch<float>(kLseAt);
    const auto positions = block.template scratch<int32_t>(kPositionsAt);
    p = {};
    ds = {};
    AddDots<kApart>(Rows(block, 0), Rows(block, 2), q, k, wide, p);
    AddDots<kApart>(Rows(block, 1), Rows(block, 3), q, k, wide, ds);
    STRINGLINE_UNROLL
    for (int r = 0; r < 4; ++r) {
      const float lse = known.get(q + r * kApart), delta = known.get(kRows + q + r * kApart);
      STRINGLINE_UNROLL
      for (int c = 0; c < 4; ++c) {
        const int64_t row = ahead + q + r * kApart, key = k + c * kApart;
        bool sees = kSight == Sight::kCross ? key < ahead : key <= row;
        if constexpr (kPacked) sees = sees && row - key <= positions.get(q + r * kApart);
        const float weight = sees ? std::exp(p.row[r][c] - lse) : 0.0f;
        p.row[r][c] = weight;
        ds.row[r][c] = sees ? weight * (ds.row[r][c] - delta) : 0.0f;
      }
    }
  }
  template <class Block>
  static STRINGLINE_BODY void Put(const Block& block, int i, const Outputs& s) {
    const auto scores = Scores(block);
    STRINGLINE_UNROLL
    for (int r = 0; r < 4; ++r) {
      STRINGLINE_UNROLL
      for (int c = 0; c < 4; ++c) {
        scores.put(i / kApart + r * kApart, i % kApart + c * kApart, s.row[r][c]);
      }
    }
  }
};

// dq, for heads of up to kSize channels; see RunAttentionGrad.
template <typename T, int kSize, Sight kSight = Sight::kSequence>
struct AttentionGradQueries {
  AttentionGradArguments<T> at;

  using Tiles = AttentionTiles<kSize>;
  using Grad = AttentionGradTiles<T, kSize, kSight>;
  static constexpr bool kPast = Grad::kPast, kCross = kSight == Sight::kCross;
  static constexpr int kRows = Tiles::kRows, kApart = Tiles::kApart, kColumns = Tiles::kColumns;

  int64_t tiles() const { return (at.shape.positions + kRows - 1) / kRows; }
  int64_t blocks() const { return at.shape.batch * at.shape.heads.queries * tiles(); }
  int scratch_words() const { return Grad::kWords; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const AttentionShape& shape = at.shape;
    const int64_t heads = shape.heads.queries;
    const int64_t tile = (block.count() - 1 - block.index()) / (shape.batch * heads);
    const AttentionTask task(block.index(), shape.batch, heads, tile, kRows);
    const bool fit = VectorsFit(shape.heads.size, at.qkv, at.past, at.dy, at.dqkv);
    const int wide = shape.wide();
    Grad::FillQueries(block, at, task, task.head, task.first, fit);
    auto dq = block.template own<Outputs, Tiles::kChannels>();
    const int64_t query_row = shape.Before(kPast) + task.first;
    const int64_t end = shape.SeenFrom<kSight>(task.first, kRows);
    for (int64_t first = FirstTile<kSight>(at.positions, shape, task, task.first, kRows);
         first < end; first += kRows) {
      Grad::FillKeys(block, at, task, shape.KeysOf(task.head), first, fit);
      block.sync();
      block.each(Tiles::kScores, [&](int i) {
        Outputs p, ds;
        Grad::Weigh(block, i, wide, (kCross ? shape.past : query_row) - first, p, ds);
        Grad::Put(block, i, ds);
      });
      block.sync();
      block.each(dq, [&](int i, Outputs& s) {
        const int d = i % kColumns;
        if (4 * d >= wide) return;
        AddMix<kApart>(Grad::Scores(block), Grad::Rows(block, 2), i / kColumns, d, kRows, s);
      });
      block.sync();
    }
    const HeadRows<T> to = shape.Queries<kSight>(at.dqkv, task, task.head, task.first);
    const float scale = shape.scale();
    block.each(dq, [&](int i, Outputs& s) {
      STRINGLINE_UNROLL
      for (int r = 0; r < 4; ++r) {
        T* const row = to(i / kColumns + r * kApart);
        if (row == nullptr) continue;
        STRINGLINE_UNROLL
        for (int c = 0; c < 4; ++c) s.row[r][c] *= scale;
        StoreFour(row, i % kColumns * 4, shape.heads.size, fit, s.row[r]);
      }
    });
  }
};

// dk and dv, for heads of up to kSize channels; see RunAttentionGrad.
template <typename T, int kSize, Sight kSight = Sight::kSequence>
struct AttentionGradKeys {
  AttentionGradArguments<T> at;

  using Tiles = AttentionTiles<kSize>;
  using Grad = AttentionGradTiles<T, kSize, kSight>;
  static constexpr bool kPast = Grad::kPast, kCross = kSight == Sight::kCross;
  static constexpr int kRows = Tiles::kRows, kColumns = Tiles::kColumns;

  int64_t tiles() const {
    const int64_t rows = (kPast ? at.shape.past : 0) + (kCross ? 0 : at.shape.positions);
    return (rows + kRows - 1) / kRows;
  }
  int64_t blocks() const { return at.shape.batch * at.shape.heads.keys * tiles(); }
  int scratch_words() const { return Grad::kWords; }

  struct Pair {
    Outputs p, ds;
  };

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const AttentionShape& shape = at.shape;
    const int64_t keys = shape.heads.keys, group = shape.heads.queries / keys;
    const int64_t tile = block.index() / (shape.batch * keys);
    const AttentionTask task(block.index(), shape.batch, keys, tile, kRows);
    const bool fit = VectorsFit(shape.heads.size, at.qkv, at.past, at.dy, at.dqkv, at.dpast);
    const int wide = shape.wide();
    // The tile with the first query that sees a key of this one.
    const int64_t before = shape.Before(kPast);
    const int64_t first_seeing = task.first < before ? 0 : (task.first - before) / kRows * kRows;
    Grad::FillKeys(block, at, task, task.head, task.first, fit);
    auto scores = block.template own<Pair, Tiles::kScores>();
    auto dk = block.template own<Outputs, Tiles::kChannels>();
    auto dv = block.template own<Outputs, Tiles::kChannels>();
    for (int64_t head = task.head * group; head < (task.head + 1) * group; ++head) {
      for (int64_t first = first_seeing; first < shape.positions; first += kRows) {
        // Documents ascend: later queries see no row of this tile either.
        if (FirstTile<kSight>(at.positions, shape, task, first, kRows) > task.first) break;
        Grad::FillQueries(block, at, task, head, first, fit);
        block.sync();
        block.each(scores, [&](int i, Pair& s) {
          Grad::Weigh(block, i, wide, before + (kCross ? 0 : first) - task.first, s.p, s.ds);
          Grad::Put(block, i, s.p);
        });
        block.sync();
        AddSpreadTile(block, wide, Grad::Rows(block, 1), dv);
        block.sync();
        block.each(scores, [&](int i, Pair& s) { Grad::Put(block, i, s.ds); });
        block.sync();
        AddSpreadTile(block, wide, Grad::Rows(block, 0), dk);
        block.sync();
      }
    }
    StoreRows(block, shape.Keys<kSight>(at.dqkv, at.dpast, task, task.head, task.first), fit, dk);
    StoreRows(block, shape.Keys<kSight>(at.dqkv, at.dpast, task, task.head + keys, task.first), fit,
              dv);
  }

 private:
  template <class Block, class Rows, class Sums>
  static STRINGLINE_BODY void AddSpreadTile(const Block& block, int wide, const Rows& rows,
                                            Sums& sums) {
    block.each(sums, [&](int i, Outputs& s) {
      const int d = i % kColumns;
      if (4 * d < wide) AddSpread(Grad::Scores(block), rows, i / kColumns, d, kRows, s);
    });
  }
  template <class Block, class Rows, class Sums>
  STRINGLINE_BODY void StoreRows(const Block& block, const Rows& to, bool fit, Sums& sums) const {
    block.each(sums, [&](int i, Outputs& s) {
      STRINGLINE_UNROLL
      for (int r = 0; r < 4; ++r) {
        T* const row = to(i / kColumns * 4 + r);
        if (row != nullptr) StoreFour(row, i % kColumns * 4, at.shape.heads.size, fit, s.row[r]);
      }
    });
  }
};

template <Sight kSight>
using OfSight = std::integral_constant<Sight, kSight>;

// f(size, sight) of constants: the least size of tiles for the heads, and the rows that are seen.
template <class F>
void WithTiles(const AttentionShape& shape, const int32_t* positions, F f) {
  const auto of_size = [&](auto size) {
    if (positions != nullptr) {
      f(size, OfSight<Sight::kDocument>());
    } else if (shape.cross) {
      f(size, OfSight<Sight::kCross>());
    } else if (shape.past > 0) {
      f(size, OfSight<Sight::kPast>());
    } else {
      f(size, OfSight<Sight::kSequence>());
    }
  };
  if (shape.heads.size <= 64) {
    of_size(Width<64>());
  } else if (shape.heads.size <= 128) {
    of_size(Width<128>());
  } else {
    of_size(Width<kMostHeadSize>());
  }
}

// Attention of heads of up to kMostHeadSize channels, by launches of run(body).
template <class Run, typename T>
void RunAttention(const Run& run, const AttentionArguments<T>& at) {
  WithTiles(at.shape, at.positions, [&](auto size, auto sight) {
    run(Attention<T, decltype(size)::kCount, decltype(sight)::value>{at});
  });
}

template <class Run, typename T>
void RunAttentionGrad(const Run& run, const AttentionGradArguments<T>& at) {
  run(AttentionDelta<T>{at});
  WithTiles(at.shape, at.positions, [&](auto size, auto sight) {
    constexpr int kSize = decltype(size)::kCount;
    run(AttentionGradQueries<T, kSize, decltype(sight)::value>{at});
    run(AttentionGradKeys<T, kSize, decltype(sight)::value>{at});
  });
}

}  // namespace stringline::cuda
