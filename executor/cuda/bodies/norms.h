// Norms of rows: layer norm, RMS norm, and RMS norm of every head of queries and keys.
//
//   mean = sum over c of x[c] / C,  rstd = 1 / sqrt(sum over c of (x[c] - mean)^2 / C + epsilon)
//   h[c] = (x[c] - mean) rstd,      y[c] = h[c] gamma[c] + beta[c]
//
// RMS norm is the same with mean = 0 and no beta. Backwards, with g[c] = dy[c] gamma[c]:
//
//   dx[c] = rstd (g[c] - avg over c of g[c] - h[c] avg over c of g[c] h[c])
//
// again without the first average in RMS norm. gamma's gradient is the sum over rows of dy[c] h[c],
// beta's that of dy[c]. A task takes some rows that follow one another and leaves its sums in a
// row of `partial`; those rows are summed by further launches (column_sum.h).
#pragma once

#include <cmath>

#include "executor/cuda/bodies/vectors.h"

namespace stringline::cuda {

enum class NormKind { kLayer, kRms };

struct NormStatistics {
  float mean, rstd;
};

template <NormKind kKind, class Block, int N, typename T, typename P>
STRINGLINE_BODY NormStatistics NormRow(const Block& block, const Steps<N>& steps, const T* x,
                                       const P* gamma, const P* beta, int64_t columns,
                                       float epsilon, T* y) {
  float mean = 0;
  if constexpr (kKind == NormKind::kLayer) {
    const Sums<1> sum = SumsOverSteps<1>(
        block, steps, [&](int c, auto width, Sums<1>& s) { s[0] += Total(Load(x + c, width)); });
    mean = sum[0] / static_cast<float>(columns);
  }
  const Sums<1> squares = SumsOverSteps<1>(block, steps, [&](int c, auto width, Sums<1>& s) {
    const auto v = Load(x + c, width);
    for (int i = 0; i < width.kCount; ++i) s[0] += (v[i] - mean) * (v[i] - mean);
  });
  const float rstd = 1.0f / std::sqrt(squares[0] / static_cast<float>(columns) + epsilon);
  EachStep(block, steps, [&](int c, auto width) {
    auto v = Load(x + c, width);
    const auto g = Load(gamma + c, width);
    for (int i = 0; i < width.kCount; ++i) v[i] = (v[i] - mean) * rstd * g[i];
    if constexpr (kKind == NormKind::kLayer) {
      const auto b = Load(beta + c, width);
      for (int i = 0; i < width.kCount; ++i) v[i] += b[i];
    }
    Store(y + c, v);
  });
  return {mean, rstd};
}

// The word of scratch memory with the sum of element i of the step at column c: neighbouring
// threads use neighbouring words. Only for rows whose steps are all of one width.
template <int N>
STRINGLINE_BODY int PlaceOfSum(int c, int i, int64_t columns, Width<N>) {
  return N == 1 ? c : i * (static_cast<int>(columns) / N) + c / N;
}

// Adds to sums in scratch memory, from word `from` on. All are read before any is written: so the
// loads are in flight together.
template <int N, class Scratch>
STRINGLINE_BODY void AddToSums(const Scratch& sums, int from, int c, int64_t columns,
                               const Vector<N>& v) {
  Vector<N> sum;
  for (int i = 0; i < N; ++i) sum[i] = sums.get(from + PlaceOfSum(c, i, columns, Width<N>()));
  for (int i = 0; i < N; ++i) {
    sums.put(from + PlaceOfSum(c, i, columns, Width<N>()), sum[i] + v[i]);
  }
}

// a + b: no product is joined with the sum in one rounding.
STRINGLINE_BODY float SumAlone(float a, float b) {
#ifdef __CUDACC__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

// v + z: the sum that adding in a launch of its own gives, bit by bit.
template <typename T, int N>
STRINGLINE_BODY Vector<N> PlusRounded(Vector<N> v, const Vector<N>& z) {
  v = Rounded(v, T());
  STRINGLINE_UNROLL
  for (int i = 0; i < N; ++i) v[i] = SumAlone(v[i], z[i]);
  return v;
}

// dx of one row; adds to the sums for gamma, and from word `columns` on for beta, in scratch
// memory. Each thread has words of its own.
template <NormKind kKind, class Block, int N, typename T, typename P, class Scratch>
STRINGLINE_BODY void NormRowGrad(const Block& block, const Steps<N>& steps, const T* dy, const T* x,
                                 const P* gamma, NormStatistics row, int64_t columns, const T* z,
                                 T* dx, const Scratch& sums) {
  const Sums<2> total = SumsOverSteps<2>(block, steps, [&](int c, auto width, Sums<2>& s) {
    const auto d = Load(dy + c, width), weight = Load(gamma + c, width);
    auto v = Load(x + c, width);
    for (int i = 0; i < width.kCount; ++i) {
      const float h = (v[i] - row.mean) * row.rstd, g = d[i] * weight[i];
      s[0] += g * h;
      if constexpr (kKind == NormKind::kLayer) s[1] += g;
      v[i] = d[i] * h;
    }
    AddToSums(sums, 0, c, columns, v);
    if constexpr (kKind == NormKind::kLayer) {
      AddToSums(sums, static_cast<int>(columns), c, columns, d);
    }
  });
  const float avg_gh = total[0] / static_cast<float>(columns);
  const float avg_g = total[1] / static_cast<float>(columns);
  EachStep(block, steps, [&](int c, auto width) {
    const auto d = Load(dy + c, width), weight = Load(gamma + c, width);
    auto v = Load(x + c, width);
    for (int i = 0; i < width.kCount; ++i) {
      const float h = (v[i] - row.mean) * row.rstd;
      v[i] = row.rstd * (d[i] * weight[i] - avg_g - h * avg_gh);
    }
    Store(dx + c, z == nullptr ? v : PlusRounded<T>(v, Load(z + c, width)));
  });
}

template <class Block, int N, class Scratch>
STRINGLINE_BODY void ClearSums(const Block& block, const Steps<N>& steps, int64_t columns, int from,
                               const Scratch& sums) {
  EachStep(block, steps, [&](int c, auto width) {
    for (int i = 0; i < width.kCount; ++i) {
      sums.put(from + PlaceOfSum(c, i, columns, width), 0.0f);
    }
  });
}

template <class Block, int N, class Scratch>
STRINGLINE_BODY void StoreSums(const Block& block, const Steps<N>& steps, int64_t columns, int from,
                               const Scratch& sums, float* to) {
  EachStep(block, steps, [&](int c, auto width) {
    for (int i = 0; i < width.kCount; ++i) {
      to[c + i] = sums.get(from + PlaceOfSum(c, i, columns, width));
    }
  });
}

// The rows of a task, an even share of `rows`.
struct RowRange {
  int64_t begin, end;
  STRINGLINE_BODY RowRange(int64_t rows, int64_t task, int64_t tasks)
      : begin(rows * task / tasks), end(rows * (task + 1) / tasks) {}
};

// The number of tasks that share the rows of a gradient: a function of the shape alone, so that
// sums have the same order on every GPU. At most as many as the 132 multiprocessors of an H100 hold
// at once, with the threads and registers of these bodies (kernels/norms.cu): 6 of 128 threads, or
// 3 of 256.
constexpr int64_t NormGradTasks(int64_t rows, int64_t columns) {
  const int64_t tasks = (rows + 7) / 8, most = columns <= 1024 ? 792 : 396;
  return tasks < most ? tasks : most;
}

// x (N,C), gamma (C), beta (C) -> y (N,C), mean (N), rstd (N). RMS norm has no beta and no mean.
template <NormKind kKind, typename T, typename P>
struct Norm {
  const T* x;
  const P* gamma;
  const P* beta;
  T* y;
  float* mean;
  float* rstd;
  int64_t rows, columns;
  float epsilon;

  int64_t blocks() const { return rows; }
  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const int64_t n = block.index();
    const Steps<kWide<T>> steps(columns,
                                VectorsFit(columns, x, y) && VectorsFit(columns, gamma, beta));
    const NormStatistics row = NormRow<kKind>(block, steps, x + n * columns, gamma, beta, columns,
                                              epsilon, y + n * columns);
    block.once([&] {
      if constexpr (kKind == NormKind::kLayer) mean[n] = row.mean;
      rstd[n] = row.rstd;
    });
  }
};
template <typename T, typename P>
using LayerNorm = Norm<NormKind::kLayer, T, P>;
template <typename T, typename P>
using RmsNorm = Norm<NormKind::kRms, T, P>;

// The operands of a norm's gradient:
//
// dy (N,C), x (N,C), gamma (C), mean (N), rstd (N), and z (N,C) or null -> dx (N,C), to which z is
// added after dx is rounded; partial (NormGradTasks(N,C), partial_columns()): sums for gamma, in
// layer norm then those for beta
template <NormKind kKind, typename T, typename P>
struct NormGradOperands {
  const T* dy;
  const T* x;
  const P* gamma;
  const float* mean;
  const float* rstd;
  const T* z;
  T* dx;
  float* partial;
  int64_t rows, columns;

  int64_t blocks() const { return NormGradTasks(rows, columns); }
  static constexpr int kSums = kKind == NormKind::kLayer ? 2 : 1;
  int64_t partial_columns() const { return kSums * columns; }
  STRINGLINE_BODY NormStatistics OfRow(int64_t n) const {
    return {kKind == NormKind::kLayer ? mean[n] : 0.0f, rstd[n]};
  }
};

// For rows of any length: the sums are in scratch memory.
template <NormKind kKind, typename T, typename P>
struct NormGrad : NormGradOperands<kKind, T, P> {
  using Operands = NormGradOperands<kKind, T, P>;
  using Operands::kSums, Operands::columns, Operands::partial;
  int scratch_words() const { return static_cast<int>(this->partial_columns()); }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    const auto sums = block.template scratch<float>(0);
    const Steps<kWide<T>> steps(columns,
                                VectorsFit(columns, this->dy, this->x, this->dx, this->z) &&
                                    VectorsFit(columns, this->gamma));
    for (int k = 0; k < kSums; ++k) {
      ClearSums(block, steps, columns, k * static_cast<int>(columns), sums);
    }
    const RowRange range(this->rows, block.index(), block.count());
    for (int64_t n = range.begin; n < range.end; ++n) {
      const int64_t at = n * columns;
      NormRowGrad<kKind>(block, steps, this->dy + at, this->x + at, this->gamma, this->OfRow(n),
                         columns, this->z == nullptr ? nullptr : this->z + at, this->dx + at, sums);
    }
    for (int k = 0; k < kSums; ++k) {
      StoreSums(block, steps, columns, k * static_cast<int>(columns), sums,
                partial + block.index() * kSums * columns + k * columns);
    }
  }
};

// For rows of at most kMost elements in vectors of 16 bytes (see fits): a thread has the same
// columns of all rows, so gamma and the sums stay in its registers, and each row is read once: dy
// and x kAhead rows ahead, z and the statistics one row.
template <NormKind kKind, typename T, typename P, int kMost>
struct NormGradInRegisters : NormGradOperands<kKind, T, P> {
  using Operands = NormGradOperands<kKind, T, P>;
  using Operands::kSums, Operands::columns, Operands::partial;
  // Bytes on their way to a multiprocessor of an H100, with rows of 768 Bf16: 6 blocks of 96
  // threads, 80 bytes each, 46 KB. Its share of the memory's rate is 25 KB a microsecond.
  static constexpr int kAhead = sizeof(T) == 2 && kMost <= 2048 ? 2 : 1;
  // Blocks of a multiprocessor.
  static constexpr int kNarrow = kMost <= 1024 ? 6 : (kMost <= 2048 ? 3 : 2);
  static constexpr int kLeastBlocks = sizeof(T) == 2 ? kNarrow : kNarrow - 1;

  bool fits() const {
    return columns <= kMost && VectorsFit(columns, this->dy, this->x, this->dx, this->z) &&
           VectorsFit(columns, this->gamma) && VectorsFit(columns, partial) &&
           this->rows * columns / kWidth <= INT32_MAX;
  }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    auto own = block.template own<Columns, kMost / kWidth>();
    const RowRange range(this->rows, block.index(), block.count());
    const int begin = static_cast<int>(range.begin), end = static_cast<int>(range.end);
    EachStep(block, own, [&](int i, Columns& of) {
      of.gamma = LoadPacked(this->gamma + i * kWidth, Width<kWidth>());
      STRINGLINE_UNROLL
      for (int k = 0; k < kAhead; ++k) of.rows[k] = LoadRow(Before(end, begin + k), i);
      of.statistics[0] = StatisticsOf(begin, i);
      LoadAdded(begin, i, of);
    });
    for (int n = begin; n < end; n += kRows) {
      STRINGLINE_UNROLL
      for (int k = 0; k < kRows; ++k) {
        if (n + k >= end) break;
        DoRow(block, own, n + k, end, k);
      }
    }
    EachStep(block, own, [&](int i, Columns& of) {
      STRINGLINE_UNROLL
      for (int k = 0; k < kSums; ++k) {
        Store(partial + (block.index() * kSums + k) * columns + i * kWidth, of.sums[k]);
      }
    });
  }

 private:
  static constexpr int kWidth = kWide<T>;
  // Rows in registers. Each keeps its own until it is done: a register that is moved while it is
  // loaded makes the thread wait.
  static constexpr int kRows = kAhead + 1;
  using Words = Packed<T, kWidth>;
  struct Row {
    Words dy, x;
  };
  // A vector of columns.
  struct Columns {
    Packed<P, kWidth> gamma;
    Row rows[kRows];                   // in turn
    NormStatistics statistics[kRows];  // in turn
    Words z;                           // of this row, then of the next
    Vector<kWidth> sums[kSums];
  };

  STRINGLINE_BODY int steps() const { return static_cast<int>(columns) / kWidth; }

  // f(step, Columns) for the steps of a row.
  template <class Block, class Own, class F>
  STRINGLINE_BODY void EachStep(const Block& block, Own& own, F f) const {
    block.each(own, [&](int i, Columns& of) {
      if (i < steps()) f(i, of);
    });
  }

  // Row n; the last one where there is none, so that a load depends on no branch.
  static STRINGLINE_BODY int Before(int end, int n) { return n < end ? n : end - 1; }
  STRINGLINE_BODY Words At(const T* array, int n, int i) const {
    return LoadPacked(array + int64_t{n * steps() + i} * kWidth, Width<kWidth>());
  }
  STRINGLINE_BODY Row LoadRow(int n, int i) const {
    return {At(this->dy, n, i), At(this->x, n, i)};
  }
  STRINGLINE_BODY NormStatistics StatisticsOf(int n, int i) const {
    // Row n always, but the compiler must not see it: it puts a number that all threads share into
    // a register that they share, and the thread waits for memory until it is there.
    return this->OfRow(i < columns ? n : n + 1);
  }
  STRINGLINE_BODY void LoadAdded(int n, int i, Columns& of) const {
    if (this->z != nullptr) of.z = At(this->z, n, i);
  }

  // Row n, in rows[turn]. Row n + kAhead is loaded meanwhile, and z and the statistics of n + 1.
  template <class Block, class Own>
  STRINGLINE_BODY void DoRow(const Block& block, Own& own, int n, int end, int turn) const {
    const Sums<kSums> total = block.reduce(
        own, Sums<kSums>{},
        [&](int i, Columns& of, Sums<kSums>& s) {
          if (i >= steps()) return;
          of.rows[(turn + kAhead) % kRows] = LoadRow(Before(end, n + kAhead), i);
          const Row& in = of.rows[turn];
          of.statistics[(turn + 1) % kRows] = StatisticsOf(Before(end, n + 1), i);
          const NormStatistics row = of.statistics[turn];
          const auto d = Unpacked(in.dy), x = Unpacked(in.x), gamma = Unpacked(of.gamma);
          STRINGLINE_UNROLL
          for (int k = 0; k < kWidth; ++k) {
            const float h = (x[k] - row.mean) * row.rstd, g = d[k] * gamma[k];
            s[0] += g * h;
            of.sums[0][k] += d[k] * h;
            if constexpr (kKind == NormKind::kLayer) {
              s[1] += g;
              of.sums[1][k] += d[k];
            }
          }
        },
        AddSums());
    const float share = 1.0f / static_cast<float>(columns), avg_gh = total[0] * share;
    const float avg_g = kSums == 2 ? total[kSums - 1] * share : 0.0f;
    EachStep(block, own, [&](int i, Columns& of) {
      Row& in = of.rows[turn];
      const NormStatistics row = of.statistics[turn];
      StayPacked(in.dy), StayPacked(in.x), StayPacked(of.gamma);
      const auto d = Unpacked(in.dy), x = Unpacked(in.x), gamma = Unpacked(of.gamma);
      Vector<kWidth> v;
      STRINGLINE_UNROLL
      for (int k = 0; k < kWidth; ++k) {
        const float h = (x[k] - row.mean) * row.rstd;
        v[k] = row.rstd * (d[k] * gamma[k] - avg_g - h * avg_gh);
      }
      // Zeros are added where there is no z.
      Store(this->dx + int64_t{n * steps() + i} * kWidth, PlusRounded<T>(v, Unpacked(of.z)));
      LoadAdded(Before(end, n + 1), i, of);
    });
  }
};

template <typename T, typename P>
using LayerNormGrad = NormGrad<NormKind::kLayer, T, P>;
template <typename T, typename P>
using RmsNormGrad = NormGrad<NormKind::kRms, T, P>;

// The bodies in registers: for each a thread keeps at most two vectors of columns (four of float).
template <NormKind kKind, typename T, typename P>
using ShortNormGrad = NormGradInRegisters<kKind, T, P, 1024>;
template <NormKind kKind, typename T, typename P>
using LongNormGrad = NormGradInRegisters<kKind, T, P, 2048>;
template <NormKind kKind, typename T, typename P>
using LongestNormGrad = NormGradInRegisters<kKind, T, P, 4096>;

// By a launch of run(body).
template <class Run, NormKind kKind, typename T, typename P>
void RunNormGrad(const Run& run, const NormGradOperands<kKind, T, P>& at) {
  const ShortNormGrad<kKind, T, P> body{at};
  if (body.fits()) return run(body);
  const LongNormGrad<kKind, T, P> for_long{at};
  if (for_long.fits()) return run(for_long);
  const LongestNormGrad<kKind, T, P> for_longest{at};
  if (for_longest.fits()) return run(for_longest);
  run(NormGrad<kKind, T, P>{at});
}

}  // namespace stringline::cuda
