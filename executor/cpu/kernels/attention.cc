// Causal attention and its gradient, one head of one sequence at a time, kBlock queries at once.
//
// Keys and values of a head are packed into workspace rows padded to whole vectors, once for all
// heads of queries that share them: those of the past, if there is one, then those of the sequence.
// All rows of the past come before every query. A document of a packed sequence is a sequence of
// its own. Cross attention has a past only: queries without keys of their own. The queries of a
// block are transposed. Weights live only for the block at hand; the backward kernel computes them
// again from the saved log-sum-exp. The scale 1 / sqrt(D) goes into the queries.
#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/attention_tiles.h"
#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/transpose.h"
#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {
namespace {

// Sizes of one head, and its place among the others.
struct Head {
  int64_t heads, kv_heads;
  int64_t past;  // rows before the sequence's own, which have keys and values only
  int64_t positions, size;
  int64_t wide;  // `size` rounded up to whole vectors
  float scale;
  bool own;  // a row has keys and values beside its queries

  // `past_rows` is null where there is no past; `qkv` may have queries only.
  Head(const Type& qkv, const Type* past_rows, absl::Span<const double> attributes)
      : heads(static_cast<int64_t>(attributes[0])),
        kv_heads(static_cast<int64_t>(attributes[1])),
        past(past_rows == nullptr ? 0 : past_rows->shape[1]),
        positions(qkv.shape[1]),
        size(past_rows == nullptr ? qkv.shape[2] / (heads + 2 * kv_heads)
                                  : past_rows->shape[2] / (2 * kv_heads)),
        wide(RoundUp(size)),
        scale(1.0f / std::sqrt(static_cast<float>(size))),
        own(qkv.shape[2] > heads * size) {}

  int64_t group() const { return heads / kv_heads; }  // heads of queries for one of keys
  int64_t width() const { return heads * size; }      // a row of y
  int64_t stride() const { return (heads + (own ? 2 * kv_heads : 0)) * size; }  // a row of qkv
  // In a row of qkv, from the first channel of head h of queries to that of its keys and values.
  int64_t to_keys(int64_t h) const { return (heads + h / group() - h) * size; }
  int64_t to_values(int64_t h) const { return to_keys(h) + kv_heads * size; }
  // The same in a row of the past, from its first channel.
  int64_t past_stride() const { return 2 * kv_heads * size; }
  int64_t past_to_keys(int64_t h) const { return h / group() * size; }
  int64_t past_to_values(int64_t h) const { return past_to_keys(h) + kv_heads * size; }
  int64_t keys_of(int64_t rows) const { return own ? rows : 0; }
  int64_t all() const { return past + keys_of(positions); }  // keys
  int64_t block() const { return kBlock * wide; }            // queries
  int64_t weights() const { return kBlock * all(); }         // for a block, one for every key
  int64_t keys() const { return all() * wide; }              // packed
  int64_t summed() const { return group() > 1 ? keys() : 0; }
};

// Hands out a kernel's workspace piece by piece.
class Workspace {
 public:
  explicit Workspace(void* data) : next_(static_cast<float*>(data)) {}
  float* Take(int64_t count) {
    float* piece = next_;
    next_ += count;
    return piece;
  }

 private:
  float* next_;
};

// Rows of floats, `stride` apart, in one of the op's tensors.
template <typename T>
struct Rows {
  T* data;
  int64_t stride;
  T* operator[](int64_t i) const { return data + i * stride; }
};

// One vector of a row of `size` channels, from channel d on; 0 beyond the last.
Vec LoadChannels(const float* row, int64_t d, int64_t size) {
  return d + kLanes <= size ? Load(row + d) : LoadPart(row + d, size - d);
}
void StoreChannels(float* row, int64_t d, int64_t size, Vec v) {
  d + kLanes <= size ? Store(row + d, v) : StorePart(row + d, v, size - d);
}

// keys, values (count, wide) = those of `count` rows, of which they are `to_keys` and `to_values`
// channels; 0 beyond `size`. Rows of a head lie too far apart for hardware prefetching, so each is
// prefetched some rows ahead; the channels at its beginning as well, which TakeBlock reads.
void PackRows(const Head& head, Rows<const float> rows, int64_t count, int64_t to_keys,
              int64_t to_values, float* keys, float* values) {
  constexpr int64_t kAhead = 8;
  for (int64_t t = 0; t < count; ++t) {
    const float* key = rows[t] + to_keys;
    const float* value = rows[t] + to_values;
    const float* ahead = rows[std::min(t + kAhead, count - 1)];
    for (int64_t d = 0; d < head.wide; d += kLanes) {
      for (int64_t from : {int64_t{0}, to_keys, to_values}) __builtin_prefetch(ahead + from + d);
      Store(keys + t * head.wide + d, LoadChannels(key, d, head.size));
      Store(values + t * head.wide + d, LoadChannels(value, d, head.size));
    }
  }
}

// keys, values (P + T, wide) = those of head h of queries; `qkv` is at the head's first channel,
// `past` at the sequence's.
void Pack(const Head& head, int64_t h, const float* qkv, const float* past, float* keys,
          float* values) {
  PackRows(head, {past, head.past_stride()}, head.past, head.past_to_keys(h),
           head.past_to_values(h), keys, values);
  const int64_t own = head.past * head.wide;
  PackRows(head, {qkv, head.stride()}, head.keys_of(head.positions), head.to_keys(h),
           head.to_values(h), keys + own, values + own);
}

// `rows` rows of `to` = those of packed (rows, wide), row i times factor[i].
void Unpack(const Head& head, const float* packed, const float* factor, int64_t rows,
            Rows<float> to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < head.size; d += kLanes) {
      StoreChannels(to[i], d, head.size, factor[i] * Load(packed + i * head.wide + d));
    }
  }
}

void Unpack(const Head& head, const float* packed, int64_t rows, Rows<float> to) {
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t d = 0; d < head.size; d += kLanes) {
      StoreChannels(to[t], d, head.size, Load(packed + t * head.wide + d));
    }
  }
}

// turned (wide, kBlock) = factor times `rows` rows of `from`, turned over; 0 in the other columns.
// packed (rows, wide) = the same side by side.
void TakeBlock(const Head& head, Rows<const float> from, int64_t rows, float factor, float* turned,
               float* packed) {
  for (int64_t d = 0; d < head.wide; d += kLanes) {
    for (int64_t i = 0; i < kBlock; i += kLanes) {
      Vec square[kLanes];
#pragma GCC unroll 16
      for (int64_t k = 0; k < kLanes; ++k) {
        square[k] = Vec{};
        if (i + k >= rows) continue;
        square[k] = factor * LoadChannels(from[i + k], d, head.size);
        Store(packed + (i + k) * head.wide + d, square[k]);
      }
      Transpose(square);
#pragma GCC unroll 16
      for (int64_t k = 0; k < kLanes; ++k) Store(turned + (d + k) * kBlock + i, square[k]);
    }
  }
}

// The largest score of each of a block's queries among its keys up to the query.
void FindMost(const float* scores, int64_t first, int64_t rows, Vec (&most)[2]) {
  Vec low = Splat(-INFINITY), high = low;
  for (int64_t j = 0; j < first; ++j) {
    low = Max(low, Load(scores + j * kBlock));
    high = Max(high, Load(scores + j * kBlock + kLanes));
  }
  for (int64_t own = 0; own < rows; ++own) {
    const float* at = scores + (first + own) * kBlock;
    low = Max(low, Seeing(own, 0) ? Load(at) : Splat(-INFINITY));
    high = Max(high, Seeing(own, kLanes) ? Load(at + kLanes) : Splat(-INFINITY));
  }
  most[0] = low;
  most[1] = high;
}

// weights = e^(scores - most), for N rows of scores, which they replace.
template <int N>
void Weigh(float* scores, const Vec (&most)[2], Vec (&weights)[2 * N]) {
  LoadAll(scores, kLanes, weights);
#pragma GCC unroll 8
  for (int i = 0; i < 2 * N; ++i) weights[i] -= most[i % 2];
  ExpAll(weights);
  StoreAll(scores, kLanes, weights);
}

// scores become weights: e^(score - the largest of the query), for its keys j <= i. Gives 1 / their
// sum, and most + log(sum), for each of `rows` queries, of which `keyed` have keys.
void Softmax(float* scores, int64_t first, int64_t rows, int64_t keyed, float* factor, float* lse) {
  Vec most[2], sum[2] = {};
  FindMost(scores, first, keyed, most);
  int64_t j = 0;
  for (; j + 2 <= first; j += 2) {
    Vec weights[4];
    Weigh<2>(scores + j * kBlock, most, weights);
    for (int i = 0; i < 4; ++i) sum[i % 2] += weights[i];
  }
  if (j < first) {  // a past of an odd number of rows
    Vec weights[2];
    Weigh<1>(scores + j * kBlock, most, weights);
    for (int i = 0; i < 2; ++i) sum[i] += weights[i];
  }
  for (int64_t own = 0; own < keyed; ++own) {
    Vec weights[2];
    Weigh<1>(scores + (first + own) * kBlock, most, weights);
    for (int i = 0; i < 2; ++i) sum[i] += Seeing(own, i * kLanes) ? weights[i] : Vec{};
  }
  for (int i = 0; i < 2; ++i) {
    Store(factor + i * kLanes, 1.0f / sum[i]);
    float largest[kLanes], total[kLanes];
    Store(largest, most[i]);
    Store(total, sum[i]);
    for (int64_t k = 0; k < std::min(rows - i * kLanes, kLanes); ++k) {
      lse[i * kLanes + k] = largest[k] + std::log(total[k]);
    }
  }
}

// The operands of a head of queries of one sequence, each at the head's first element; past and
// dpast at the sequence's.
struct HeadForward {
  const float* qkv;
  const float* past;
  float* y;
  float* lse;
};

// Head h of queries of one sequence. The first head of a group packs the group's keys and values.
void ForwardHead(const Head& head, int64_t h, const HeadForward& at, Workspace workspace) {
  const int64_t width = head.width(), stride = head.stride();
  float* keys = workspace.Take(head.keys());
  float* values = workspace.Take(head.keys());
  float* queries = workspace.Take(head.block());
  float* mixed = workspace.Take(head.block());
  float* weights = workspace.Take(head.weights());
  if (h % head.group() == 0) Pack(head, h, at.qkv, at.past, keys, values);
  for (int64_t first = 0; first < head.positions; first += kBlock) {
    const int64_t rows = std::min(kBlock, head.positions - first), keyed = head.keys_of(rows);
    const int64_t before = head.past + head.keys_of(first);
    TakeBlock(head, {at.qkv + first * stride, stride}, rows, head.scale, queries, mixed);
    Scores(keys, head.wide, queries, head.size, before, keyed, weights);
    float factor[kBlock];
    Softmax(weights, before, rows, keyed, factor, at.lse + first);
    if (head.own) {
      Mix<true>(weights, values, head.wide, before, rows, mixed);
    } else {
      Mix<false>(weights, values, head.wide, before, rows, mixed);
    }
    Unpack(head, mixed, factor, rows, {at.y + first * width, width});
  }
}

struct HeadGrad {
  const float* dy;
  const float* qkv;
  const float* past;
  const float* y;
  const float* lse;
  float* dqkv;
  float* dpast;
};

struct GradBuffers {
  float *turned_queries, *turned_dy;       // the block's
  float *queries, *dy, *dqueries;          // the block's, packed
  float *weights, *dscores;                // the block's, a row for every key
  float *keys, *values, *dkeys, *dvalues;  // the head's, packed
  float *sum_dkeys, *sum_dvalues;          // the group's, if it has more than one head

  GradBuffers(const Head& head, Workspace workspace) {
    for (float** piece : {&turned_queries, &turned_dy, &queries, &dy, &dqueries}) {
      *piece = workspace.Take(head.block());
    }
    for (float** piece : {&weights, &dscores}) *piece = workspace.Take(head.weights());
    for (float** piece : {&keys, &values, &dkeys, &dvalues}) *piece = workspace.Take(head.keys());
    for (float** piece : {&sum_dkeys, &sum_dvalues}) *piece = workspace.Take(head.summed());
  }
};

// weights = P = e^(scores - lse), dscores = P (dscores - delta), for the block's queries and `keys`
// keys. Weights of keys beyond a query are never read.
void GradOfSoftmax(float* weights, float* dscores, int64_t keys, const float* lse,
                   const float* delta) {
  Vec log_sum[2], shift[2];
  LoadAll(lse, kLanes, log_sum);
  LoadAll(delta, kLanes, shift);
  ForVectors<4>(keys * kBlock, [&]<int N>(int64_t at, int64_t) {
    const int64_t half = at / kLanes % 2;
    Vec p[N], ds[N];
    LoadAll(weights + at, kLanes, p);
    LoadAll(dscores + at, kLanes, ds);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) p[i] -= log_sum[(half + i) % 2];
    ExpAll(p);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) ds[i] = p[i] * (ds[i] - shift[(half + i) % 2]);
    StoreAll(weights + at, kLanes, p);
    StoreAll(dscores + at, kLanes, ds);
  });
}

// For the block's queries from `first` on: delta[i] = dy[i] . y[i], and their lse; 0 beyond `rows`.
void RowsOfBlock(const Head& head, const HeadGrad& at, int64_t first, int64_t rows, float* lse,
                 float* delta) {
  const Rows<const float> dy{at.dy, head.width()}, y{at.y, head.width()};
  for (int64_t i = 0; i < kBlock; ++i) {
    lse[i] = delta[i] = 0;
    if (i >= rows) continue;
    Vec sum = {};
    for (int64_t d = 0; d < head.size; d += kLanes) {
      sum += LoadChannels(dy[first + i], d, head.size) * LoadChannels(y[first + i], d, head.size);
    }
    lse[i] = at.lse[first + i];
    delta[i] = Sum(sum);
  }
}

// The block of queries from `first` on: its dq, and its part of dk and dv.
template <bool own>
void BackwardBlock(const Head& head, const HeadGrad& at, const GradBuffers& to, int64_t first) {
  const int64_t width = head.width(), stride = head.stride(), wide = head.wide;
  const int64_t rows = std::min(kBlock, head.positions - first), keyed = own ? rows : 0;
  const int64_t before = head.past + head.keys_of(first);
  TakeBlock(head, {at.qkv + first * stride, stride}, rows, head.scale, to.turned_queries,
            to.queries);
  TakeBlock(head, {at.dy + first * width, width}, rows, 1.0f, to.turned_dy, to.dy);
  Scores(to.keys, wide, to.turned_queries, head.size, before, keyed, to.weights);
  Scores(to.values, wide, to.turned_dy, head.size, before, keyed, to.dscores);
  float lse[kBlock], delta[kBlock], factor[kBlock];
  RowsOfBlock(head, at, first, rows, lse, delta);
  GradOfSoftmax(to.weights, to.dscores, before + keyed, lse, delta);
  Mix<own>(to.dscores, to.keys, wide, before, rows, to.dqueries);
  std::fill_n(factor, kBlock, head.scale);
  Unpack(head, to.dqueries, factor, rows, {at.dqkv + first * stride, stride});
  Spread<own>(to.dscores, to.queries, wide, before, rows, to.dkeys);
  Spread<own>(to.weights, to.dy, wide, before, rows, to.dvalues);
}

// Adds a head's dk or dv, packed, to those of the heads before it in its group.
void AddToGroup(const Head& head, int64_t in_group, const float* grad, float* sum) {
  for (int64_t i = 0; i < head.keys(); i += kLanes) {
    Store(sum + i, in_group == 0 ? Load(grad + i) : Load(sum + i) + Load(grad + i));
  }
}

// Head h of queries of one sequence. The last head of a group writes the gradients of the group's
// keys and values, the sum over the group's heads.
void BackwardHead(const Head& head, int64_t h, const HeadGrad& at, Workspace workspace) {
  const int64_t stride = head.stride(), past_stride = head.past_stride();
  const int64_t in_group = h % head.group(), own = head.past * head.wide;
  const GradBuffers buffers(head, workspace);
  if (in_group == 0) Pack(head, h, at.qkv, at.past, buffers.keys, buffers.values);
  // Blocks overwrite their own keys' gradients, and add to those of keys before them.
  std::fill_n(buffers.dkeys, own, 0.0f);
  std::fill_n(buffers.dvalues, own, 0.0f);
  for (int64_t first = 0; first < head.positions; first += kBlock) {
    head.own ? BackwardBlock<true>(head, at, buffers, first)
             : BackwardBlock<false>(head, at, buffers, first);
  }
  const float *dkeys = buffers.dkeys, *dvalues = buffers.dvalues;
  if (head.group() > 1) {
    AddToGroup(head, in_group, buffers.dkeys, buffers.sum_dkeys);
    AddToGroup(head, in_group, buffers.dvalues, buffers.sum_dvalues);
    if (in_group + 1 < head.group()) return;
    dkeys = buffers.sum_dkeys;
    dvalues = buffers.sum_dvalues;
  }
  Unpack(head, dkeys, head.past, {at.dpast + head.past_to_keys(h), past_stride});
  Unpack(head, dvalues, head.past, {at.dpast + head.past_to_values(h), past_stride});
  const int64_t keyed = head.keys_of(head.positions);
  Unpack(head, dkeys + own, keyed, {at.dqkv + head.to_keys(h), stride});
  Unpack(head, dvalues + own, keyed, {at.dqkv + head.to_values(h), stride});
}

// Calls visit(b, first, document) for every document, a head with its number of positions, of every
// sequence b; without `positions` a sequence is a single document.
template <typename Visit>
void ForDocuments(const Head& head, int64_t batch, const Tensor* positions, Visit visit) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t first = 0; first < head.positions;) {
      Head document = head;
      document.positions = head.positions - first;
      if (positions != nullptr) {
        const int32_t* const at = positions->i32() + b * head.positions + first;
        document.positions = std::find(at + 1, at + document.positions, 0) - at;
      }
      visit(b, first, document);
      first += document.positions;
    }
  }
}

// y and lse of every head; `past` and `positions` are null where there are none.
void Forward(const Node& node, const Tensor& qkv, const Tensor* past, const Tensor* positions,
             Out out, void* workspace) {
  const Head head(*qkv.type, past == nullptr ? nullptr : past->type, node.attributes);
  const auto forward = [&](int64_t b, int64_t first, const Head& document) {
    const int64_t past_at = b * head.past * head.past_stride();
    const int64_t row = b * head.positions + first;
    for (int64_t h = 0; h < head.heads; ++h) {
      ForwardHead(document, h,
                  {qkv.f32() + row * head.stride() + h * head.size,
                   past == nullptr ? nullptr : past->f32() + past_at,
                   out[0].f32() + row * head.width() + h * head.size,
                   out[1].f32() + (b * head.heads + h) * head.positions + first},
                  Workspace(workspace));
    }
  };
  ForDocuments(head, qkv.type->shape[0], positions, forward);
}

// dqkv, and dpast, of every head; `past` and `positions` are null where there are none.
void Backward(const Node& node, In in, const Tensor* past, const Tensor* positions, Out out,
              void* workspace) {
  const Tensor &dy = in[0], &qkv = in[1], &y = in[in.size() - 2], &lse = in.back();
  const Head head(*qkv.type, past == nullptr ? nullptr : past->type, node.attributes);
  const auto backward = [&](int64_t b, int64_t first, const Head& document) {
    const int64_t past_at = b * head.past * head.past_stride();
    const int64_t row = b * head.positions + first;
    for (int64_t h = 0; h < head.heads; ++h) {
      const int64_t at = row * head.width() + h * head.size;
      const int64_t packed_at = row * head.stride() + h * head.size;
      BackwardHead(
          document, h,
          {dy.f32() + at, qkv.f32() + packed_at, past == nullptr ? nullptr : past->f32() + past_at,
           y.f32() + at, lse.f32() + (b * head.heads + h) * head.positions + first,
           out[0].f32() + packed_at, past == nullptr ? nullptr : out[1].f32() + past_at},
          Workspace(workspace));
    }
  };
  ForDocuments(head, qkv.type->shape[0], positions, backward);
}

}  // namespace

int64_t AttentionWorkspace(const Type& qkv, const Type* past, absl::Span<const double> attributes) {
  const Head head(qkv, past, attributes);
  return (2 * head.keys() + 2 * head.block() + head.weights()) *
         static_cast<int64_t>(sizeof(float));
}

int64_t AttentionGradWorkspace(const Type& qkv, const Type* past,
                               absl::Span<const double> attributes) {
  const Head head(qkv, past, attributes);
  return (5 * head.block() + 2 * head.weights() + 4 * head.keys() + 2 * head.summed()) *
         static_cast<int64_t>(sizeof(float));
}

// qkv's last dimension holds H heads of queries, K of keys and K of values, D channels each. For
// each head of queries, with the keys and values of head h K / H, rounded down:
//
// s[i,j] = q[i] . k[j] / sqrt(D) for j <= i
// lse[i] = log of the sum over j <= i of e^s[i,j]
// y[i] = sum over j <= i of e^(s[i,j] - lse[i]) v[j]
//
// qkv (B,T,(H+2K)D) -> y (B,T,HD), lse (B,H,T), both overwritten.
void Run_kAttention(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Forward(node, in[0], nullptr, nullptr, out, workspace);
}

// With p[i,j] = e^(s[i,j] - lse[i]) and delta[i] = dy[i] . y[i]:
//
// ds[i,j] = p[i,j] (dy[i] . v[j] - delta[i]) / sqrt(D) for j <= i
// dq[i] = sum over j of ds[i,j] k[j],  dk[j] = sum over i of ds[i,j] q[i]
// dv[j] = sum over i of p[i,j] dy[i]           the last two over all heads of queries they serve
//
// dy (B,T,HD), qkv (B,T,(H+2K)D), y (B,T,HD), lse (B,H,T) -> dqkv as qkv, overwritten.
void Run_kAttentionGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Backward(node, in, nullptr, nullptr, out, workspace);
}

// As attention, but every sum over j also goes over the P rows of the past, which come first. A row
// of the past holds K heads of keys, then K heads of values.
//
// qkv (B,T,(H+2K)D), past (B,P,2KD) -> y (B,T,HD), lse (B,H,T), both overwritten.
void Run_kAttentionPast(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Forward(node, in[0], &in[1], nullptr, out, workspace);
}

// dk and dv of the past's rows are its gradient.
//
// dy (B,T,HD), qkv (B,T,(H+2K)D), past (B,P,2KD), y (B,T,HD), lse (B,H,T) -> dqkv as qkv, dpast as
// past, both overwritten.
void Run_kAttentionPastGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Backward(node, in, &in[2], nullptr, out, workspace);
}

// As attention, but the queries have no keys of their own: all sums go over the rows of kv.
//
// q (B,T,HD), kv (B,S,2KD) -> y (B,T,HD), lse (B,H,T), both overwritten.
void Run_kCrossAttention(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Forward(node, in[0], &in[1], nullptr, out, workspace);
}

// dy (B,T,HD), q (B,T,HD), kv (B,S,2KD), y (B,T,HD), lse (B,H,T) -> dq as q, dkv as kv, both
// overwritten.
void Run_kCrossAttentionGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Backward(node, in, &in[2], nullptr, out, workspace);
}

// As attention, but the sums go over the rows of the query's document alone. positions I32 (B,T)
// are 0 where a document begins: a document is computed as a sequence of its own, with its bits.
//
// qkv (B,T,(H+2K)D), positions (B,T) -> y (B,T,HD), lse (B,H,T), both overwritten.
void Run_kPackedAttention(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Forward(node, in[0], nullptr, &in[1], out, workspace);
}

// dy (B,T,HD), qkv (B,T,(H+2K)D), positions (B,T), y (B,T,HD), lse (B,H,T) -> dqkv as qkv,
// overwritten.
void Run_kPackedAttentionGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  Backward(node, in, nullptr, &in[2], out, workspace);
}

}  // namespace stringline::cpu
