// The loss of a row of logits, and its gradient, in one body: the logits are read from memory once.
//
//   lse = log of the sum over v of e^logits[v],  loss = lse - logits[target]
//   dlogits[v] = dloss (e^(logits[v] - lse) - [v = target])
//
// A target outside the columns gives NaN for the row's loss and reads no logit.
#pragma once

#include <cfloat>
#include <cmath>

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

// e^x. On a GPU the hardware's: off by |x| in the 24th bit, which is small for x near 0, the terms
// that make up a row's sum; exponentials are then no slower than memory.
STRINGLINE_BODY float QuickExp(float x) {
#ifdef __CUDACC__
  return __expf(x);
#else
  return std::exp(x);
#endif
}

// The largest of some numbers, and the sum of e^(x - largest).
struct LogSum {
  float largest = -FLT_MAX, sum = 0;

  template <int N>
  STRINGLINE_BODY void Take(const Vector<N>& v) {
    float most = largest;
    for (int i = 0; i < N; ++i) most = v[i] > most ? v[i] : most;
    if (most > largest) {
      sum *= QuickExp(largest - most);
      largest = most;
    }
    for (int i = 0; i < N; ++i) sum += QuickExp(v[i] - largest);
  }
  STRINGLINE_BODY void Join(const LogSum& other) {
    const float most = other.largest > largest ? other.largest : largest;
    sum = sum * QuickExp(largest - most) + other.sum * QuickExp(other.largest - most);
    largest = most;
  }
  STRINGLINE_BODY float Log() const { return largest + std::log(sum); }
};

// logits: `rows` rows of `columns`, `stride` elements apart; target I32 (N) -> lse (N), losses (N),
// dlogits as logits. Null outputs are not written. dlogits may be logits; its columns past the
// last, up to `stride`, are zeroed.
template <typename T>
struct CrossEntropy {
  const T* logits;
  const int32_t* target;
  float* lse;
  float* losses;
  T* dlogits;
  const float* dloss;  // one float, for dlogits; null: 1
  int64_t rows, columns, stride;
  bool lse_is_known = false;  // then lse is read, not computed: the gradient alone

  int64_t blocks() const { return rows; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const T* const row = logits + n * stride;
    const int32_t right = target[n];
    const Steps<kWide<T>> steps(columns, VectorsFit(stride, logits, dlogits));
    float log_sum;
    if (lse_is_known) {
      log_sum = lse[n];
    } else {
      // Read before the reduction: dlogits[right] may be the same memory.
      const float at_target = right >= 0 && right < columns ? ToFloat(row[right]) : NAN;
      log_sum = block
                    .reduce(
                        steps.count(), LogSum(),
                        [&](int i, LogSum& s) {
                          steps.Visit(i, [&](int c, auto width) { s.Take(Load(row + c, width)); });
                        },
                        [](LogSum& a, const LogSum& b) { a.Join(b); })
                    .Log();
      block.once([&] {
        if (lse != nullptr) lse[n] = log_sum;
        if (losses != nullptr) losses[n] = log_sum - at_target;
      });
    }
    if (dlogits == nullptr) return;
    const float scale = dloss == nullptr ? 1.0f : *dloss;
    T* const to = dlogits + n * stride;
    EachStep(block, steps, [&](int c, auto width) {
      auto v = Load(row + c, width);
      for (int i = 0; i < width.kCount; ++i) {
        v[i] = scale * (QuickExp(v[i] - log_sum) - (c + i == right ? 1.0f : 0.0f));
      }
      Store(to + c, v);
    });
    block.each(static_cast<int>(stride - columns), [&](int i) { StoreOne(to + columns + i, 0); });
  }
};

// y = factor times the sum of all x, in double; one task.
struct SumOfAll {
  const float* x;
  float* y;
  int64_t count;
  float factor = 1;

  int64_t blocks() const { return 1; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const Sums<1, double> sum = block.reduce(
        static_cast<int>(count), Sums<1, double>{},
        [&](int i, Sums<1, double>& s) { s[0] += x[i]; }, AddSums());
    block.once([&] { *y = static_cast<float>(factor * sum[0]); });
  }
};

}  // namespace stringline::cuda
