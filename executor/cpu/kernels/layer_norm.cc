#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernels.h"
#include "executor/cpu/kernels/row_vectors.h"

namespace stringline::cpu {

// mean[n] = sum over c of x[n,c] / C,  rstd[n] = 1 / sqrt(sum over c of (x[n,c] - mean[n])^2 / C +
// e) y[n,c] = (x[n,c] - mean[n]) rstd[n] gamma[c] + beta[c]
//
// x (N,C), gamma (C), beta (C) -> y (N,C), mean (N), rstd (N), all overwritten.
void Run_kLayerNorm(const Node& node, In in, Out out, Accumulate, void*) {
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  const float epsilon = static_cast<float>(node.attributes[0]);
  const float* gamma = in[1].f32();
  const float* beta = in[2].f32();
  for (int64_t n = 0; n < rows; ++n) {
    const float* x = in[0].f32() + n * columns;
    float* y = out[0].f32() + n * columns;
    Vec sum = {};
    ForRow(columns, [&](int64_t c, auto width) { sum += Get(x + c, width); });
    const float mean = Sum(sum) / static_cast<float>(columns);
    Vec squares = {};
    ForRow(columns, [&](int64_t c, auto width) {
      const Vec d = (Get(x + c, width) - mean) * Ones(width);
      squares += d * d;
    });
    const float rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(columns) + epsilon);
    ForRow(columns, [&](int64_t c, auto width) {
      const Vec normal = (Get(x + c, width) - mean) * rstd;
      Put(y + c, normal * Get(gamma + c, width) + Get(beta + c, width), width);
    });
    out[1].f32()[n] = mean;
    out[2].f32()[n] = rstd;
  }
}

int64_t LayerNormGradWorkspace(const Type& x) {
  return 2 * RoundUp(x.shape.back()) * static_cast<int64_t>(sizeof(float));
}

// With h[n,c] = (x[n,c] - mean[n]) rstd[n] and g[n,c] = dy[n,c] gamma[c]:
//
// dx[n,c] = rstd[n] (g[n,c] - avg over c of g[n,c] - h[n,c] avg over c of g[n,c] h[n,c])
// dgamma[c] = sum over n of dy[n,c] h[n,c],  dbeta[c] = sum over n of dy[n,c]
//
// dy (N,C), x (N,C), gamma (C), mean (N), rstd (N) -> dx (N,C) overwritten; dgamma (C) and dbeta
// (C) overwritten or added to, after the sum over this microbatch.
void Run_kLayerNormGrad(const Node&, In in, Out out, Accumulate accumulate, void* workspace) {
  const int64_t rows = RowCount(in[0]), columns = RowLength(in[0]);
  const float* gamma = in[2].f32();
  float* dgamma = static_cast<float*>(workspace);
  float* dbeta = dgamma + RoundUp(columns);
  std::fill_n(dgamma, 2 * RoundUp(columns), 0.0f);
  for (int64_t n = 0; n < rows; ++n) {
    const float* dy = in[0].f32() + n * columns;
    const float* x = in[1].f32() + n * columns;
    float* dx = out[0].f32() + n * columns;
    const float mean = in[3].f32()[n], rstd = in[4].f32()[n];
    Vec sum_g = {}, sum_gh = {};
    ForRow(columns, [&](int64_t c, auto width) {
      const Vec d = Get(dy + c, width), h = (Get(x + c, width) - mean) * rstd;
      const Vec g = d * Get(gamma + c, width);
      sum_g += g;
      sum_gh += g * h;
      Store(dgamma + c, Load(dgamma + c) + d * h);
      Store(dbeta + c, Load(dbeta + c) + d);
    });
    const float avg_g = Sum(sum_g) / static_cast<float>(columns);
    const float avg_gh = Sum(sum_gh) / static_cast<float>(columns);
    ForRow(columns, [&](int64_t c, auto width) {
      const Vec h = (Get(x + c, width) - mean) * rstd;
      const Vec g = Get(dy + c, width) * Get(gamma + c, width);
      Put(dx + c, rstd * (g - avg_g - h * avg_gh), width);
    });
  }
  for (int i = 1; i <= 2; ++i) {
    const float* sum = i == 1 ? dgamma : dbeta;
    float* target = out[i].f32();
    for (int64_t c = 0; c < columns; ++c) target[c] = accumulate[i] ? target[c] + sum[c] : sum[c];
  }
}

}  // namespace stringline::cpu
