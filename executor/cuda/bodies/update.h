// The end of a step: the sum of squares of all gradients, clipping, AdamW over all parameters in
// one launch, and the update of a router's bias. Formulas as in executor/engine/optimizer.h.
#pragma once

#include <cmath>
#include <vector>

#include "executor/cuda/bodies/vectors.h"
#include "executor/engine/update_step.h"

namespace stringline::cuda {

// A parameter with its gradient and moments, in floats; `copy`, if not null, is read by the matrix
// products.
struct UpdatedParam {
  float* param;
  float* grad;
  float* m;
  float* v;
  Bf16* copy;
  int64_t count;
  bool decays;
};

// A task: kUpdateChunk elements of a parameter, the chunk-th of them.
struct ParamChunk {
  int32_t param, chunk;
};
constexpr int64_t kUpdateChunk = 8192;

// All chunks of all parameters. For a norm, parameters counted elsewhere, such as copies on another
// stage, are to be left out.
inline std::vector<ParamChunk> ChunksOf(const std::vector<UpdatedParam>& params) {
  std::vector<ParamChunk> chunks;
  for (size_t p = 0; p < params.size(); ++p) {
    for (int64_t c = 0; c * kUpdateChunk < params[p].count; ++c) {
      chunks.push_back({static_cast<int32_t>(p), static_cast<int32_t>(c)});
    }
  }
  return chunks;
}

// Elements of the chunk, from `begin` on.
struct ChunkRange {
  int64_t begin, count;
  STRINGLINE_BODY ChunkRange(int32_t chunk, int64_t all)
      : begin(chunk * kUpdateChunk),
        count(all - begin < kUpdateChunk ? all - begin : kUpdateChunk) {}
};

// squares[i] = sum over the elements of chunk i of grad^2, in double, which no float's square
// overflows.
struct SquaresOfChunks {
  const UpdatedParam* params;
  const ParamChunk* chunks;
  double* squares;
  int64_t chunk_count;

  int64_t blocks() const { return chunk_count; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const ParamChunk chunk = chunks[block.index()];
    const UpdatedParam& own = params[chunk.param];
    const ChunkRange range(chunk.chunk, own.count);
    const float* const grad = own.grad + range.begin;
    const Steps<4> steps(range.count, VectorsFit(0, grad));
    const Sums<1, double> sum = block.reduce(
        steps.count(), Sums<1, double>{},
        [&](int i, Sums<1, double>& s) {
          steps.Visit(i, [&](int at, auto width) {
            const auto g = Load(grad + at, width);
            for (int k = 0; k < width.kCount; ++k) s[0] += double{g[k]} * g[k];
          });
        },
        AddSums());
    block.once([&] { squares[block.index()] = sum[0]; });
  }
};

// sum = squares[0] + squares[1] + ..., in a fixed order; one task.
struct SumOfSquaredChunks {
  const double* squares;
  double* sum;
  int64_t chunk_count;

  int64_t blocks() const { return 1; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const Sums<1, double> total = block.reduce(
        static_cast<int>(chunk_count), Sums<1, double>{},
        [&](int i, Sums<1, double>& s) { s[0] += squares[i]; }, AddSums());
    block.once([&] { *sum = total[0]; });
  }
};

// sums[p] = the sum of squares[first[p]] .. squares[first[p + 1] - 1], the chunks of parameter p by
// SquaresOfChunks; a task for each parameter. 0 without chunks.
struct SumsOfParams {
  const double* squares;
  const int32_t* first;
  double* sums;
  int64_t params;

  int64_t blocks() const { return params; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int32_t begin = first[block.index()], end = first[block.index() + 1];
    const Sums<1, double> total = block.reduce(
        end - begin, Sums<1, double>{},
        [&](int i, Sums<1, double>& s) { s[0] += squares[begin + i]; }, AddSums());
    block.once([&] { sums[block.index()] = total[0]; });
  }
};

// The factor of gradients: `mean`, and less if their norm would exceed `clip_norm` (0: no limit).
// NaN if the sum of squares is not finite.
struct ClipScale {
  const double* squares;
  double* norm;
  float* scale;
  double mean, clip_norm;

  int64_t blocks() const { return 1; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    block.once([&] {
      const double own = std::sqrt(*squares) * mean;
      *norm = own;
      const double by = clip_norm > 0 && own > clip_norm ? mean * (clip_norm / own) : mean;
      *scale = own - own == 0 ? static_cast<float>(by) : NAN;
    });
  }
};

// AdamW's numbers of the step, in device memory.
struct AdamWStep {
  float rate;              // learning rate
  float m_scale, v_scale;  // 1 / (1 - beta^step)
  float decay;             // learning rate times weight decay
  float beta1, beta2, epsilon;
};

// Copies a step's numbers from host memory to AdamWUpdate's device memory. So a replayed launch
// uses the numbers that the host wrote since.
struct SetStep {
  const UpdateStep* from;
  AdamWStep* step;
  float* scale;

  int64_t blocks() const { return 1; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    block.once([&] {
      const AdamW adamw = from->adamw;
      const auto number = static_cast<double>(from->number);
      step->rate = static_cast<float>(adamw.learning_rate);
      step->m_scale = static_cast<float>(1 / (1 - std::pow(adamw.beta1, number)));
      step->v_scale = static_cast<float>(1 / (1 - std::pow(adamw.beta2, number)));
      step->decay = static_cast<float>(adamw.learning_rate * adamw.weight_decay);
      step->beta1 = static_cast<float>(adamw.beta1);
      step->beta2 = static_cast<float>(adamw.beta2);
      step->epsilon = static_cast<float>(adamw.epsilon);
      *scale = static_cast<float>(from->scale);
    });
  }
};

// One update of every parameter, g = scale * grad:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   p = (1 - decay) p - rate m_scale m / (sqrt(v_scale v) + epsilon)
// Sets grads to zero. Has no effect if the scale is NaN.
struct AdamWUpdate {
  const UpdatedParam* params;
  const ParamChunk* chunks;
  int64_t chunk_count;
  const AdamWStep* step;
  const float* scale;

  int64_t blocks() const { return chunk_count; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const float by = *scale;
    if (!(by - by == 0)) return;
    const ParamChunk chunk = chunks[block.index()];
    const UpdatedParam own = params[chunk.param];
    const ChunkRange range(chunk.chunk, own.count);
    const AdamWStep now = *step;
    const float keep = 1 - (own.decays ? now.decay : 0.0f);
    const bool fit = VectorsFit(0, own.param, own.grad, own.m, own.v) && VectorsFit(0, own.copy);
    const Steps<8> steps(range.count, fit);
    EachStep(block, steps, [&](int i, auto width) {
      const int64_t at = range.begin + i;
      auto g = Load(own.grad + at, width), m = Load(own.m + at, width);
      auto v = Load(own.v + at, width), p = Load(own.param + at, width);
      for (int k = 0; k < width.kCount; ++k) {
        g[k] *= by;
        m[k] = now.beta1 * m[k] + (1 - now.beta1) * g[k];
        v[k] = now.beta2 * v[k] + (1 - now.beta2) * g[k] * g[k];
        p[k] = keep * p[k] -
               now.rate * (now.m_scale * m[k]) / (std::sqrt(now.v_scale * v[k]) + now.epsilon);
        g[k] = 0;
      }
      Store(own.grad + at, g);
      Store(own.m + at, m);
      Store(own.v + at, v);
      Store(own.param + at, p);
      if (own.copy != nullptr) Store(own.copy + at, p);
    });
  }
};

// b[e] += rate sign(mean over all experts of load - load[e]), and every load is set to zero; the
// rate is read from host memory.
struct BalanceUpdate {
  float* bias;
  float* load;
  int64_t experts;
  const UpdateStep* step;

  int64_t blocks() const { return 1; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const Sums<1, double> sum = block.reduce(
        static_cast<int>(experts), Sums<1, double>{},
        [&](int e, Sums<1, double>& s) { s[0] += load[e]; }, AddSums());
    const double mean = sum[0] / static_cast<double>(experts);
    const double rate = step->balance_rate;
    block.each(static_cast<int>(experts), [&](int e) {
      const double off = mean - load[e];
      if (off != 0) bias[e] += static_cast<float>(off > 0 ? rate : -rate);
      load[e] = 0;
    });
  }
};

}  // namespace stringline::cuda
