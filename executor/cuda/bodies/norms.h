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

STRINGLINE_BODY float Rounded(float value, float) { return value; }
STRINGLINE_BODY float Rounded(float value, Bf16) { return ToFloat(ToBf16(value)); }

// v + z: the sum that adding in a launch of its own gives, bit by bit.
template <typename T, int N>
STRINGLINE_BODY Vector<N> PlusRounded(Vector<N> v, const Vector<N>& z) {
  STRINGLINE_UNROLL
  for (int i = 0; i < N; ++i) v[i] = Rounded(v[i], T()) + z[i];
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
// columns of all rows, so gamma and the sums stay in its registers, and each row is read once.
template <NormKind kKind, typename T, typename P, int kMost>
struct NormGradInRegisters : NormGradOperands<kKind, T, P> {
  using Operands = NormGradOperands<kKind, T, P>;
  using Operands::kSums, Operands::columns, Operands::partial;
  // Blocks of a multiprocessor. The gradient of layer norm has as many without being told, and
  // would spill registers otherwise.
  static constexpr bool kIsTold = kKind == NormKind::kRms && sizeof(T) == 2;
  static constexpr int kLeastBlocks = kIsTold && kMost <= 2048 ? (kMost <= 1024 ? 6 : 3) : 0;

  bool fits() const {
    return columns <= kMost && VectorsFit(columns, this->dy, this->x, this->dx, this->z) &&
           VectorsFit(columns, this->gamma) && VectorsFit(columns, partial);
  }

  template <class Block>
  STRINGLINE_BODY void operator()(const Block& block) const {
    constexpr int kWidth = kWide<T>;
    struct Columns {
      Vector<kWidth> gamma, d, h, z;
      Vector<kWidth> next_d, next_x;  // of the row after: loaded while this one is summed
      Vector<kWidth> sums[kSums];
    };
    auto own = block.template own<Columns, kMost / kWidth>();
    const int steps = static_cast<int>(columns) / kWidth;
    const RowRange range(this->rows, block.index(), block.count());
    NormStatistics next = this->OfRow(range.begin);
    const auto load_next = [&](int64_t n, int i, Columns& c) {
      c.next_d = Load(this->dy + n * columns + i * kWidth, Width<kWidth>());
      c.next_x = Load(this->x + n * columns + i * kWidth, Width<kWidth>());
    };
    block.each(own, [&](int i, Columns& c) {
      if (i >= steps) return;
      c.gamma = Load(this->gamma + i * kWidth, Width<kWidth>());
      load_next(range.begin, i, c);
    });
    for (int64_t n = range.begin; n < range.end; ++n) {
      const NormStatistics row = next;
      const bool goes_on = n + 1 < range.end;
      if (goes_on) next = this->OfRow(n + 1);
      const int64_t at = n * columns;
      const auto total = block.reduce(
          own, Sums<kSums>{},
          [&](int i, Columns& c, Sums<kSums>& s) {
            if (i >= steps) return;
            c.d = c.next_d;
            c.h = c.next_x;
            if (goes_on) load_next(n + 1, i, c);
            if (this->z != nullptr) c.z = Load(this->z + at + i * kWidth, Width<kWidth>());
            STRINGLINE_UNROLL
            for (int k = 0; k < kWidth; ++k) {
              c.h[k] = (c.h[k] - row.mean) * row.rstd;
              const float g = c.d[k] * c.gamma[k];
              s[0] += g * c.h[k];
              c.sums[0][k] += c.d[k] * c.h[k];
              if constexpr (kKind == NormKind::kLayer) {
                s[1] += g;
                c.sums[1][k] += c.d[k];
              }
            }
          },
          AddSums());
      const float avg_gh = total[0] / static_cast<float>(columns);
      const float avg_g = kSums == 2 ? total[kSums - 1] / static_cast<float>(columns) : 0.0f;
      block.each(own, [&](int i, Columns& c) {
        if (i >= steps) return;
        Vector<kWidth> v;
        STRINGLINE_UNROLL
        for (int k = 0; k < kWidth; ++k) {
          v[k] = row.rstd * (c.d[k] * c.gamma[k] - avg_g - c.h[k] * avg_gh);
        }
        Store(this->dx + at + i * kWidth, this->z == nullptr ? v : PlusRounded<T>(v, c.z));
      });
    }
    block.each(own, [&](int i, Columns& c) {
      if (i >= steps) return;
      STRINGLINE_UNROLL
      for (int k = 0; k < kSums; ++k) {
        Store(partial + (block.index() * kSums + k) * columns + i * kWidth, c.sums[k]);
      }
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
