// The loss of a row of logits, and its gradient, in one body. The logits are read from memory once:
// for the gradient they are read again from scratch memory, if a row fits there, else from the L2
// cache.
//
//   lse = log of the sum over v of e^logits[v],  loss = lse - logits[target]
//   dlogits[v] = dloss (e^(logits[v] - lse) - [v = target])
//
// A row without a target (kWithoutTarget) has no loss and a gradient of 0. Another target outside
// the columns gives NaN for the row's loss and reads no logit.
#pragma once

#include <cfloat>
#include <cmath>

#include "executor/cuda/bodies/vectors.h"
#include "executor/cuda/bodies/warp_tiles.h"

namespace stringline::cuda {

constexpr int32_t kWithoutTarget = -1;  // kNoTarget of stages/graph.h

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

// The gradient of v, the logits from column c on.
template <int N>
STRINGLINE_BODY Vector<N> LogitGrad(Vector<N> v, int c, int target, float log_sum, float scale) {
  for (int i = 0; i < N; ++i) {
    v[i] = scale * (QuickExp(v[i] - log_sum) - (c + i == target ? 1.0f : 0.0f));
  }
  return v;
}

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
      StoreLoss(block, right, log_sum, at_target);
    }
    if (dlogits == nullptr) return;
    const float scale = ScaleOf(right);
    T* const to = dlogits + n * stride;
    EachStep(block, steps, [&](int c, auto width) {
      Store(to + c, LogitGrad(Load(row + c, width), c, right, log_sum, scale));
    });
    ClearPadding(block);
  }

  template <class Block>
  STRINGLINE_BODY void StoreLoss(const Block& block, int target_of_row, float log_sum,
                                 float at_target) const {
    block.once([&] {
      if (lse != nullptr) lse[block.index()] = log_sum;
      if (losses != nullptr)
        losses[block.index()] = target_of_row == kWithoutTarget ? 0 : log_sum - at_target;
    });
  }
  STRINGLINE_BODY float ScaleOf(int target_of_row) const {
    if (target_of_row == kWithoutTarget) return 0;
    return dloss == nullptr ? 1.0f : *dloss;
  }
  template <class Block>
  STRINGLINE_BODY void ClearPadding(const Block& block) const {
    T* const to = dlogits + block.index() * stride;
    block.each(static_cast<int>(stride - columns), [&](int i) { StoreOne(to + columns + i, 0); });
  }
};

// The same bits, for the loss with its gradient: see fits. All vectors of a row are on their way at
// once. Each thread reads those that it has copied itself.
template <typename T>
struct CrossEntropyInScratch : CrossEntropy<T> {
  using CrossEntropy<T>::columns, CrossEntropy<T>::stride;
  static constexpr int kThreads = 1024, kLeastBlocks = 2;
  // A block has 99 KiB on any GPU since compute capability 8.0, with what a reduction needs.
  static constexpr int64_t kMostBytes = (99 << 10) - 2 * 32 * sizeof(LogSum);

  bool fits() const {
    return this->dlogits != nullptr && !this->lse_is_known &&
           VectorsFit(stride, this->logits, this->dlogits) && columns / kWide<T> * 16 <= kMostBytes;
  }
  int scratch_words() const { return static_cast<int>(columns / kWide<T>) * 4; }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const T* const row = this->logits + n * stride;
    const Steps<kWide<T>> steps(columns, /*vectors_fit=*/true);
    const auto kept = block.template scratch<uint32_t>(0);
    auto threads = block.template own<Nothing, kThreads>();
    // f(first column, width) for the steps of thread t.
    const auto each_of = [&](int t, auto f) {
      for (int i = t; i < steps.count(); i += kThreads) steps.Visit(i, f);
    };
    const auto word = [](int c) { return c * static_cast<int>(sizeof(T)) / 4; };
    Copies copies;
    block.each(threads, [&](int t, Nothing&) {
      each_of(t, [&](int c, auto width) {
        if constexpr (width.kCount > 1) copies.Copy(t, kept, word(c), row + c, true);
      });
    });
    copies.Commit();
    const auto load = [&](int c, auto width) {
      if constexpr (width.kCount > 1) {
        return Unpacked(kept.template take<Packed<T, width.kCount>>(word(c)));
      } else {
        return Load(row + c, width);
      }
    };
    const int32_t right = this->target[n];
    const float at_target = right >= 0 && right < columns ? ToFloat(row[right]) : NAN;
    copies.template Wait<0>(block);
    const float log_sum = block
                              .reduce(
                                  threads, LogSum(),
                                  [&](int t, Nothing&, LogSum& s) {
                                    each_of(t, [&](int c, auto width) { s.Take(load(c, width)); });
                                  },
                                  [](LogSum& a, const LogSum& b) { a.Join(b); })
                              .Log();
    this->StoreLoss(block, right, log_sum, at_target);
    const float scale = this->ScaleOf(right);
    T* const to = this->dlogits + n * stride;
    block.each(threads, [&](int t, Nothing&) {
      each_of(t, [&](int c, auto width) {
        Store(to + c, LogitGrad(load(c, width), c, right, log_sum, scale));
      });
    });
    this->ClearPadding(block);
  }

 private:
  struct Nothing {};
};

// By a launch of run(body).
template <class Run, typename T>
void RunCrossEntropy(const Run& run, const CrossEntropy<T>& body) {
  const CrossEntropyInScratch<T> in_scratch{body};
  if (in_scratch.fits()) return run(in_scratch);
  run(body);
}

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
