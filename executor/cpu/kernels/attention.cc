// Causal attention and its gradient, one head of one sequence at a time, kBlock queries at once.
//
// The keys and values of a head are packed into workspace rows padded to whole vectors; scores live
// only for the block at hand. The backward kernel computes them again from the saved log-sum-exp.
#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/tile_product.h"
#include "executor/cpu/kernels/vec.h"

namespace stringline::cpu {
namespace {

constexpr int64_t kBlock = 32;

// Sizes of one head: positions, channels, and both rounded up to whole vectors.
struct Head {
  int64_t heads, positions, size;
  int64_t wide_positions, wide_size;

  Head(const Type& qkv, int64_t heads_)
      : heads(heads_),
        positions(qkv.shape[1]),
        size(qkv.shape[2] / 3 / heads_),
        wide_positions((positions + kBlock - 1) / kBlock * kBlock),
        wide_size(RoundUp(size)) {}

  int64_t width() const { return heads * size; }
  int64_t packed() const { return wide_positions * wide_size; }
  int64_t block() const { return kBlock * std::max(wide_positions, wide_size); }
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

// to (T, wide size) = from (T, size) with rows `stride` apart; padding 0.
void Pack(const Head& head, const float* from, int64_t stride, float* to) {
  std::fill_n(to, head.packed(), 0.0f);
  for (int64_t t = 0; t < head.positions; ++t) {
    std::copy_n(from + t * stride, head.size, to + t * head.wide_size);
  }
}

// to (size, wide T) = from (T, size) transposed; padding 0.
void PackTransposed(const Head& head, const float* from, int64_t stride, float* to) {
  for (int64_t d = 0; d < head.size; ++d) {
    float* row = to + d * head.wide_positions;
    for (int64_t t = 0; t < head.positions; ++t) row[t] = from[t * stride + d];
    std::fill(row + head.positions, row + head.wide_positions, 0.0f);
  }
}

// Turns a row of scores, of which the first `seen` count, into e^(scale s - most), 0 from `seen` to
// `columns`. Gives the sum, and in `lse` the log of the sum of e^(scale s).
float ExpRow(float* row, int64_t seen, int64_t columns, float scale, float* lse) {
  std::fill(row + seen, row + columns, -INFINITY);
  Vec best = Load(row);
  for (int64_t j = kLanes; j < columns; j += kLanes) best = Max(best, Load(row + j));
  const float most = scale * MaxOf(best);
  Vec sum = {};
  for (int64_t j = 0; j < columns; j += kLanes) {
    const Vec s = Load(row + j);
    const Vec e = s > -INFINITY ? Exp(scale * s - most) : Vec{};
    sum += e;
    Store(row + j, e);
  }
  const float total = Sum(sum);
  *lse = most + std::log(total);
  return total;
}

// row = dscores = P (dP - delta) scale and, in `p`, P = e^(scale s - lse); 0 from `seen` on.
void GradRow(float* p, float* dp, int64_t seen, int64_t columns, float scale, float lse,
             float delta) {
  for (int64_t j = 0; j < columns; j += kLanes) {
    const Vec e = Exp(scale * Load(p + j) - lse);
    Store(p + j, e);
    Store(dp + j, e * (Load(dp + j) - delta) * scale);
  }
  std::fill(p + seen, p + columns, 0.0f);
  std::fill(dp + seen, dp + columns, 0.0f);
}

void CopyRows(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows,
              int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * from_row, columns, to + i * to_row);
}

// One head of one sequence; qkv, y and lse point at its first element.
void ForwardHead(const Head& head, const float* qkv, float* y, float* lse, Workspace workspace) {
  const int64_t stride = 3 * head.width();
  const float scale = 1.0f / std::sqrt(static_cast<float>(head.size));
  float* keys = workspace.Take(head.packed());
  float* values = workspace.Take(head.packed());
  float* scores = workspace.Take(head.block());
  float* result = workspace.Take(head.block());
  PackTransposed(head, qkv + head.width(), stride, keys);
  Pack(head, qkv + 2 * head.width(), stride, values);
  for (int64_t first = 0; first < head.positions; first += kBlock) {
    const int64_t rows = std::min(kBlock, head.positions - first), columns = first + kBlock;
    TileProduct(rows, columns, head.size, {qkv + first * stride, stride, 1}, keys,
                head.wide_positions, scores, head.wide_positions, false);
    float totals[kBlock];
    for (int64_t i = 0; i < rows; ++i) {
      totals[i] =
          ExpRow(scores + i * head.wide_positions, first + i + 1, columns, scale, lse + first + i);
    }
    TileProduct(rows, head.wide_size, first + rows, {scores, head.wide_positions, 1}, values,
                head.wide_size, result, head.wide_size, false);
    for (int64_t i = 0; i < rows; ++i) {
      const float factor = 1.0f / totals[i];
      float* row = y + (first + i) * head.width();
      for (int64_t d = 0; d < head.size; ++d) row[d] = factor * result[i * head.wide_size + d];
    }
  }
}

struct HeadGrad {
  const float* dy;
  const float* qkv;
  const float* y;
  const float* lse;
  float* dqkv;
};

// The packed operands of one head's gradient.
struct Packed {
  float *keys_t, *values_t, *keys, *queries, *dy, *dkeys, *dvalues, *scores, *dscores, *result;

  Packed(const Head& head, Workspace workspace) {
    for (float** piece : {&keys_t, &values_t, &keys, &queries, &dy, &dkeys, &dvalues}) {
      *piece = workspace.Take(head.packed());
    }
    for (float** piece : {&scores, &dscores, &result}) *piece = workspace.Take(head.block());
  }
};

// The block of queries from `first` on: its dq, and its part of dk and dv.
void BackwardBlock(const Head& head, const HeadGrad& at, const Packed& packed, int64_t first) {
  const int64_t stride = 3 * head.width(), wide = head.wide_positions;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head.size));
  const int64_t rows = std::min(kBlock, head.positions - first), columns = first + kBlock;
  TileProduct(rows, columns, head.size, {at.qkv + first * stride, stride, 1}, packed.keys_t, wide,
              packed.scores, wide, false);
  TileProduct(rows, columns, head.size, {at.dy + first * head.width(), head.width(), 1},
              packed.values_t, wide, packed.dscores, wide, false);
  for (int64_t i = 0; i < rows; ++i) {
    const float* dy = at.dy + (first + i) * head.width();
    const float* y = at.y + (first + i) * head.width();
    float delta = 0;
    for (int64_t d = 0; d < head.size; ++d) delta += dy[d] * y[d];
    GradRow(packed.scores + i * wide, packed.dscores + i * wide, first + i + 1, columns, scale,
            at.lse[first + i], delta);
  }
  TileProduct(rows, head.wide_size, first + rows, {packed.dscores, wide, 1}, packed.keys,
              head.wide_size, packed.result, head.wide_size, false);
  CopyRows(packed.result, head.wide_size, at.dqkv + first * stride, stride, rows, head.size);
  TileProduct(first + rows, head.wide_size, rows, {packed.dscores, 1, wide},
              packed.queries + first * head.wide_size, head.wide_size, packed.dkeys, head.wide_size,
              true);
  TileProduct(first + rows, head.wide_size, rows, {packed.scores, 1, wide},
              packed.dy + first * head.wide_size, head.wide_size, packed.dvalues, head.wide_size,
              true);
}

void BackwardHead(const Head& head, const HeadGrad& at, Workspace workspace) {
  const int64_t width = head.width(), stride = 3 * width;
  const Packed packed(head, workspace);
  PackTransposed(head, at.qkv + width, stride, packed.keys_t);
  PackTransposed(head, at.qkv + 2 * width, stride, packed.values_t);
  Pack(head, at.qkv + width, stride, packed.keys);
  Pack(head, at.qkv, stride, packed.queries);
  Pack(head, at.dy, width, packed.dy);
  std::fill_n(packed.dkeys, head.packed(), 0.0f);
  std::fill_n(packed.dvalues, head.packed(), 0.0f);
  for (int64_t first = 0; first < head.positions; first += kBlock) {
    BackwardBlock(head, at, packed, first);
  }
  CopyRows(packed.dkeys, head.wide_size, at.dqkv + width, stride, head.positions, head.size);
  CopyRows(packed.dvalues, head.wide_size, at.dqkv + 2 * width, stride, head.positions, head.size);
}

}  // namespace

int64_t AttentionWorkspace(const Type& qkv, int64_t heads) {
  const Head head(qkv, heads);
  return (2 * head.packed() + 2 * head.block()) * static_cast<int64_t>(sizeof(float));
}

int64_t AttentionGradWorkspace(const Type& qkv, int64_t heads) {
  const Head head(qkv, heads);
  return (7 * head.packed() + 3 * head.block()) * static_cast<int64_t>(sizeof(float));
}

// With q, k, v the thirds of qkv's last dimension, D = C / H channels a head, and per head:
//
// s[i,j] = q[i] . k[j] / sqrt(D) for j <= i
// lse[i] = log of the sum over j <= i of e^s[i,j]
// y[i] = sum over j <= i of e^(s[i,j] - lse[i]) v[j]
//
// qkv (B,T,3C) -> y (B,T,C), lse (B,H,T), both overwritten.
void Run_kAttention(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const Head head(*in[0].type, static_cast<int64_t>(node.attributes[0]));
  const int64_t batch = in[0].type->shape[0], size = head.positions * head.width();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < head.heads; ++h) {
      ForwardHead(head, in[0].f32() + b * 3 * size + h * head.size,
                  out[0].f32() + b * size + h * head.size,
                  out[1].f32() + (b * head.heads + h) * head.positions, Workspace(workspace));
    }
  }
}

// With p[i,j] = e^(s[i,j] - lse[i]) and delta[i] = dy[i] . y[i]:
//
// ds[i,j] = p[i,j] (dy[i] . v[j] - delta[i]) / sqrt(D) for j <= i
// dq[i] = sum over j of ds[i,j] k[j],  dk[j] = sum over i of ds[i,j] q[i]
// dv[j] = sum over i of p[i,j] dy[i]
//
// dy (B,T,C), qkv (B,T,3C), y (B,T,C), lse (B,H,T) -> dqkv (B,T,3C), overwritten.
void Run_kAttentionGrad(const Node& node, In in, Out out, Accumulate, void* workspace) {
  const Head head(*in[1].type, static_cast<int64_t>(node.attributes[0]));
  const int64_t batch = in[1].type->shape[0], size = head.positions * head.width();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < head.heads; ++h) {
      const int64_t at = b * size + h * head.size, packed_at = b * 3 * size + h * head.size;
      BackwardHead(head,
                   {in[0].f32() + at, in[1].f32() + packed_at, in[2].f32() + at,
                    in[3].f32() + (b * head.heads + h) * head.positions, out[0].f32() + packed_at},
                   Workspace(workspace));
    }
  }
}

}  // namespace stringline::cpu
