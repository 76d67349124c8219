// The route of a token's row to its experts and back. The plan is a stable sort of the slots by
// expert (counting_sort.h): order I32 (S), the slots in memory order.
#pragma once

#include "executor/cuda/bodies/counting_sort.h"

namespace stringline::cuda {

// The sort for `choice` I32 (S): order I32 (S), counts I32 (E), dropped (); see dispatch_plan in
// stages/ops.def. `integers` has DispatchPlanIntegers(S,E).
constexpr int64_t DispatchPlanIntegers(int64_t slots, int64_t experts) {
  return SortCounts(slots, experts) + experts + 1;
}
template <class Run>
void PlanDispatch(const Run& run, const int32_t* choice, int64_t slots, int32_t experts,
                  int32_t capacity, int32_t* order, int32_t* counts, float* dropped,
                  int32_t* integers) {
  const SortKeys keys{choice, nullptr, slots, experts};
  int32_t* const starts = integers + SortCounts(slots, experts);
  SortByKey(run, keys, capacity, integers, starts, order, counts, dropped);
}

// y[j,:] = x[order[j] / K,:]                     x (N,C), order I32 (N K) -> y (N K,C)
template <typename T>
struct GatherRows {
  const T* x;
  const int32_t* order;
  T* y;
  int64_t slots, choices, columns;

  int64_t blocks() const { return slots; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t j = block.index();
    const T* const from = x + order[j] / choices * columns;
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, x, y));
    EachStep(block, steps,
             [&](int c, auto width) { Store(y + j * columns + c, Load(from + c, width)); });
  }
};

// place[order[j]] = j                            order I32 (S) -> place I32 (S)
struct InvertOrder {
  const int32_t* order;
  int32_t* place;
  int64_t slots;

  int64_t blocks() const { return TasksOf(slots); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    EachOfTask<1>(block, slots, false,
                  [&](int64_t j, auto) { place[order[j]] = static_cast<int32_t>(j); });
  }
};

// y[n,:] = sum over k, ascending, of x[place[n K + k],:]
//
// x (N K,C), place I32 (N K): InvertOrder -> y (N,C)
template <typename T>
struct SumRows {
  const T* x;
  const int32_t* place;
  T* y;
  int64_t rows, choices, columns;

  int64_t blocks() const { return rows; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const int32_t* const from = place + n * choices;
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, x, y));
    EachStep(block, steps, [&](int c, auto width) {
      auto sum = Load(x + from[0] * columns + c, width);
      for (int64_t k = 1; k < choices; ++k) {
        const auto v = Load(x + from[k] * columns + c, width);
        for (int i = 0; i < width.kCount; ++i) sum[i] += v[i];
      }
      Store(y + n * columns + c, sum);
    });
  }
};

// y[j] = x[order[j]], or, the other way, y[order[j]] = x[j]      x, y (S), order I32 (S)
struct PermuteWeights {
  const float* x;
  const int32_t* order;
  float* y;
  int64_t slots;
  bool scatter = false;

  int64_t blocks() const { return TasksOf(slots); }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    EachOfTask<1>(block, slots, false, [&](int64_t j, auto) {
      if (scatter) {
        y[order[j]] = x[j];
      } else {
        y[j] = x[order[j]];
      }
    });
  }
};

// y = sum of x, an int32: the number of rows received, or sent.
struct SumOfCounts {
  const int32_t* x;
  int32_t* y;
  int64_t count;

  int64_t blocks() const { return 1; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const Sums<1, int32_t> sum = block.reduce(
        static_cast<int>(count), Sums<1, int32_t>{},
        [&](int i, Sums<1, int32_t>& s) { s[0] += x[i]; }, AddSums());
    block.once([&] { *y = sum[0]; });
  }
};

// y[i,:] = x[i,:] for the first *taken rows, and 0 for the others: returns the slots, some of which
// no expert took. y may be x. `clear` false: the others are not written.
template <typename T>
struct CopyTaken {
  const T* x;
  const int32_t* taken;
  T* y;
  int64_t rows, columns;
  bool clear = true;

  int64_t blocks() const { return rows; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const bool is_taken = n < *taken;
    if (!is_taken && !clear) return;
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, x, y));
    EachStep(block, steps, [&](int c, auto width) {
      Vector<width.kCount> v = {};
      if (is_taken) v = Load(x + n * columns + c, width);
      Store(y + n * columns + c, v);
    });
  }
};

// y[n,:] = 0 for rows n >= the sum of `counts`. y (N,C), counts I32 (how_many)
template <typename T>
struct ClearBehind {
  T* y;
  const int32_t* counts;
  int64_t how_many, rows, columns;

  int64_t blocks() const { return rows < kMostTasks ? rows : kMostTasks; }
  static constexpr int64_t kMostTasks = 1024;  // each adds up the counts

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const Sums<1, int32_t> there = block.reduce(
        static_cast<int>(how_many), Sums<1, int32_t>{},
        [&](int i, Sums<1, int32_t>& s) { s[0] += counts[i]; }, AddSums());
    const Steps<kWide<T>> steps(columns, VectorsFit(columns, y));
    for (int64_t n = there[0] + block.index(); n < rows; n += block.count()) {
      EachStep(block, steps, [&](int c, auto width) {
        Vector<width.kCount> zeros = {};
        Store(y + n * columns + c, zeros);
      });
    }
  }
};

}  // namespace stringline::cuda
