// Norms that only scale: of whole rows, and of every head of queries and keys.
#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/row_vectors.h"

namespace stringline::cpu {
namespace {

// y[c] = x[c] rstd gamma[c]; gives rstd = 1 / sqrt(sum over c of x[c]^2 / C + epsilon).
float NormRow(const float* x, const float* gamma, int64_t columns, float epsilon, float* y) {
  Vec squares = {};
  ForRow(columns, [&](int64_t c, auto width) {
    const Vec v = Get(x + c, width);
    squares += v * v;
  });
  const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(columns) + epsilon);
  ForRow(columns, [&](int64_t c, auto width) {
    Put(y + c, Get(x + c, width) * rstd * Get(gamma + c, width), width);
  });
  return rstd;
}

// With h[c] = x[c] rstd and g[c] = dy[c] gamma[c]:
//
// dx[c] = rstd (g[c] - h[c] avg over c of g[c] h[c]),  dgamma[c] += dy[c] h[c]
//
// dgamma is padded to whole vectors.
void NormRowGrad(const float* dy, const float* x, const float* gamma, float rstd, int64_t columns,
                 float* dx, float* dgamma) {
  Vec sum_gh = {};
  ForRow(columns, [&](int64_t c, auto width) {
    const Vec d = Get(dy + c, width), h = Get(x + c, width) * rstd;
    sum_gh += d * Get(gamma + c, width) * h;
    Store(dgamma + c, Load(dgamma + c) + d * h);
  });
  const float avg_gh = Sum(sum_gh) / static_cast<float>(columns);
  ForRow(columns, [&](int64_t c, auto width) {
    const Vec h = Get(x + c, width) * rstd;
    const Vec g = Get(dy + c, width) * Get(gamma + c, width);
    Put(dx + c, rstd * (g - h * avg_gh), width);
  });
}

// target (+)= sum
void AddUp(const float* sum, int64_t count, bool accumulate, float* target) {
  for (int64_t c = 0; c < count; ++c) target[c] = accumulate ? target[c] + sum[c] : sum[c];
}

// The heads of a row of packed queries, keys and values.
struct PackedHeads {
  int64_t queries, keys, size;

  PackedHeads(const Node& node, const Tensor& gamma)
      : queries(static_cast<int64_t>(node.attributes[0])),
        keys(static_cast<int64_t>(node.attributes[1])),
        size(RowLength(gamma)) {}
  int64_t normed() const { return queries + keys; }
  int64_t values() const { return normed() * size; }  // offset of the values
};

}  // namespace

// rstd[n] = 1 / sqrt(sum over c of x[n,c]^2 / C + epsilon),  y[n,c] = x[n,c] rstd[n] gamma[c]
//
// x (N,C), gamma (C) -> y (N,C), rstd (N), both overwritten.
void Run_kRmsNorm(const Node& node, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  const float epsilon = static_cast<float>(node.attributes[0]);
  for (int64_t n = 0; n < rows; ++n) {
    out[1].f32()[n] = NormRow(in[0].f32() + n * columns, in[1].f32(), columns, epsilon,
                              out[0].f32() + n * columns);
  }
}

int64_t RmsNormGradWorkspace(const Type& x) {
  return RoundUp(x.shape.back()) * static_cast<int64_t>(sizeof(float));
}

// dx as in NormRowGrad;  dgamma[c] = sum over n of dy[n,c] x[n,c] rstd[n]
//
// dy (N,C), x (N,C), gamma (C), rstd (N) -> dx (N,C) overwritten; dgamma (C) overwritten or added
// to, after the sum over this microbatch.
void Run_kRmsNormGrad(const Node&, In in, Out out, Accumulate accumulate, void* workspace) {
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  float* dgamma = static_cast<float*>(workspace);
  std::fill_n(dgamma, RoundUp(columns), 0.0f);
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t at = n * columns;
    NormRowGrad(in[0].f32() + at, in[1].f32() + at, in[2].f32(), in[3].f32()[n], columns,
                out[0].f32() + at, dgamma);
  }
  AddUp(dgamma, columns, accumulate[1], out[1].f32());
}

// rms_norm of every head of queries, with one gamma, and of keys, with another; values are copied.
//
// qkv (B,T,(H+2K)D), query gamma (D), key gamma (D) -> y as qkv, rstd (B,T,H+K), both overwritten.
void Run_kHeadNorm(const Node& node, In in, Out out, Accumulate, void*) {
  const PackedHeads heads(node, in[1]);
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  const float epsilon = static_cast<float>(node.attributes[2]);
  for (int64_t n = 0; n < rows; ++n) {
    const float* x = in[0].f32() + n * columns;
    float* y = out[0].f32() + n * columns;
    for (int64_t h = 0; h < heads.normed(); ++h) {
      const float* gamma = in[h < heads.queries ? 1 : 2].f32();
      out[1].f32()[n * heads.normed() + h] =
          NormRow(x + h * heads.size, gamma, heads.size, epsilon, y + h * heads.size);
    }
    std::copy(x + heads.values(), x + columns, y + heads.values());
  }
}

int64_t HeadNormGradWorkspace(const Type& gamma) { return 2 * RmsNormGradWorkspace(gamma); }

// dy as qkv (B,T,(H+2K)D), qkv, query gamma (D), key gamma (D), rstd (B,T,H+K) -> dqkv overwritten;
// the gradients of the gammas (D) overwritten or added to, after the sum over all rows and heads.
void Run_kHeadNormGrad(const Node& node, In in, Out out, Accumulate accumulate, void* workspace) {
  const PackedHeads heads(node, in[2]);
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  float* const dgammas = static_cast<float*>(workspace);
  std::fill_n(dgammas, 2 * RoundUp(heads.size), 0.0f);
  for (int64_t n = 0; n < rows; ++n) {
    const float* dy = in[0].f32() + n * columns;
    float* dx = out[0].f32() + n * columns;
    for (int64_t h = 0; h < heads.normed(); ++h) {
      const int64_t key = h < heads.queries ? 0 : 1, at = h * heads.size;
      NormRowGrad(dy + at, in[1].f32() + n * columns + at, in[2 + key].f32(),
                  in[4].f32()[n * heads.normed() + h], heads.size, dx + at,
                  dgammas + key * RoundUp(heads.size));
    }
    std::copy(dy + heads.values(), dy + columns, dx + heads.values());
  }
  for (int i = 1; i <= 2; ++i) {
    AddUp(dgammas + (i - 1) * RoundUp(heads.size), heads.size, accumulate[i], out[i].f32());
  }
}

}  // namespace stringline::cpu
