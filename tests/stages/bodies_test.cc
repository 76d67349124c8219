// Bodies of the elementwise and row-wise kernels against the CPU's kernels.
#include "executor/cuda/bodies/activations.h"
#include "executor/cuda/bodies/column_sum.h"
#include "executor/cuda/bodies/elementwise.h"
#include "executor/cuda/bodies/norms.h"
#include "executor/cuda/bodies/slices.h"
#include "tests/stages/body_runs.h"

#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif

namespace stringline::cuda {

namespace {

TEST(Bf16Test, RoundsToTheNearest) {
  const struct {
    uint32_t wide;
    uint16_t half;
  } kCases[] = {
      {0x3f800000, 0x3f80}, {0x3f807fff, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81},
      {0x3f818000, 0x3f82}, {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fff},
      {0x00000001, 0x0000}, {0x80000000, 0x8000}, {0x00018000, 0x0002},
  };
  for (const auto& c : kCases) {
    float value;
    std::memcpy(&value, &c.wide, sizeof value);
    EXPECT_EQ(ToBf16(value).bits, c.half) << std::hex << c.wide;
  }
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const Bf16 half = {static_cast<uint16_t>(bits)};
    const float value = ToFloat(half);
    ASSERT_EQ(ToBf16(value).bits, std::isnan(value) ? 0x7fff : bits);
  }
}

#ifdef __CUDA_BF16_H__
TEST(Bf16Test, IsThatOfTheToolkit) {
  static_assert(sizeof(__nv_bfloat16) == sizeof(Bf16));
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 0x2f1b) {
    const auto narrow = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &narrow, sizeof value);
    const __nv_bfloat16 theirs = __float2bfloat16_rn(value);
    uint16_t half;
    std::memcpy(&half, &theirs, sizeof half);
    ASSERT_EQ(ToBf16(value).bits, half) << std::hex << narrow;
  }
}
#endif

TEST_F(BodiesTest, Elementwise) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const Array a = Stored<T>(Random({shape.rows, shape.columns}));
    const Array b = Stored<T>(Random({shape.rows, shape.columns}));
    const int64_t count = a.type.elements();
    Buffer<T> x(a, run), z(b, run), y(count, run);
    RunOnHost(Add<T>{x.data(), z.data(), y.data(), count}, run.threads);
    ExpectSame(y, RunKernel(Op::kAdd, {a, b}, {})[0]);
    RunOnHost(Mul<T>{x.data(), z.data(), y.data(), count}, run.threads);
    ExpectSame(y, RunKernel(Op::kMul, {a, b}, {})[0]);
    RunOnHost(Scale<T, T>{x.data(), y.data(), count, -0.75f}, run.threads);
    const Array scaled = RunKernel(Op::kScale, {a}, {-0.75})[0];
    ExpectSame(y, scaled);
    RunOnHost(Scale<T, T>{x.data(), z.data(), count, -0.75f, true}, run.threads);
    ExpectSame(z, RunKernel(Op::kAdd, {b, scaled}, {})[0]);
    Buffer<float> wide(count, run);
    RunOnHost(Scale<T, float>{x.data(), wide.data(), count}, run.threads);
    ExpectSame(wide, a, 0);
    Buffer<Bf16> narrow(count, run);
    RunOnHost(Scale<T, Bf16>{x.data(), narrow.data(), count}, run.threads);
    ExpectSame<float>(narrow.Values(), Stored<Bf16>(a), 0);
    RunOnHost(Fill<T>{y.data(), count, 0.5f}, run.threads);
    Array halves = cpu::MakeArray(a.type);
    std::fill_n(halves.f32(), count, 0.5f);
    ExpectSame(y, halves, 0);
  });
}

// Parts of rows and of sequences, aligned and not, and zeros.
TEST_F(BodiesTest, PartsAreCopied) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const int64_t count = shape.rows, columns = shape.columns;
    for (const int64_t channel : {8, 3}) {
      const int64_t width = columns + channel + 5, positions = count + 3;
      const Array x = Stored<T>(Random({2, positions, width}));
      Buffer<T> from(x, run), to(2 * count * columns, run);
      const Part<T> whole = {to.data(), count, columns};
      RunOnHost(CopyPart<T>{{from.data(), positions, width, 2, channel}, whole, 2, count, columns},
                run.threads);
      Array part = cpu::MakeArray(cpu::F32({2, count, columns}));
      for (int64_t i = 0; i < part.type.elements(); ++i) {
        const int64_t n = i / columns;
        part.f32()[i] =
            x.f32()[(n / count * positions + 2 + n % count) * width + channel + i % columns];
      }
      ExpectSame(to, part, 0);
      RunOnHost(CopyPart<T>{{}, {from.data(), positions, width, 2, channel}, 2, count, columns},
                run.threads);
      for (int64_t i = 0; i < x.type.elements(); ++i) {
        const int64_t t = i / width % positions - 2, c = i % width - channel;
        if (t >= 0 && t < count && c >= 0 && c < columns) x.f32()[i] = 0;
      }
      ExpectSame(from, x, 0);
    }
  });
}

TEST_F(BodiesTest, TableAddedToEverySequence) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const Array x = Stored<T>(Random({3, shape.rows, shape.columns}));
    const Array table = Stored<T>(Random({shape.rows, shape.columns}));
    Buffer<T> from(x, run), add(table, run), y(x.type.elements(), run);
    RunOnHost(AddRepeated<T>{from.data(), add.data(), y.data(), 3 * shape.rows, shape.columns,
                             shape.rows},
              run.threads);
    ExpectSame(y, RunKernel(Op::kPositionAdd, {x, table}, {0})[0]);
    Buffer<float> sum(table.type.elements(), run);
    RunOnHost(SumOfFewRows<T>{from.data(), sum.data(), 3, table.type.elements()}, run.threads);
    const Array grad = RunKernel(Op::kPositionGrad, {x}, {double(shape.rows), 0})[0];
    ExpectSame(sum, grad);
    RunOnHost(SumOfFewRows<T>{from.data(), sum.data(), 3, table.type.elements(), true},
              run.threads);
    ExpectSame(sum, RunKernel(Op::kScale, {grad}, {2.0})[0]);
  });
}

TEST_F(BodiesTest, Gelu) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const Array x = Stored<T>(Random({shape.rows, shape.columns}, 4));
    const Array dy = Stored<T>(Random({shape.rows, shape.columns}));
    const int64_t count = x.type.elements();
    Buffer<T> from(x, run), grad(dy, run), y(count, run);
    RunOnHost(Gelu<T>{from.data(), y.data(), count}, run.threads);
    ExpectSame(y, RunKernel(Op::kGelu, {x}, {})[0]);
    RunOnHost(GeluGrad<T>{grad.data(), from.data(), grad.data(), count}, run.threads);
    ExpectSame(grad, RunKernel(Op::kGeluGrad, {dy, x}, {})[0]);
  });
}

TEST(ActivationsTest, LargeArgumentsStayNumbers) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {200.0f, 1e20f, 3e38f, kInfinity}) {
    EXPECT_EQ(GeluSlope(x), 1);
    EXPECT_NEAR(GeluSlope(-x), 0, 1e-30);
    EXPECT_EQ(SiluAndSlope(x).silu, x);
    EXPECT_EQ(SiluAndSlope(x).slope, 1);
    EXPECT_NEAR(SiluAndSlope(-x).silu, 0, 1e-30);
    EXPECT_NEAR(SiluAndSlope(-x).slope, 0, 1e-30);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(GeluOf(nan)) && std::isnan(GeluSlope(nan)));
  EXPECT_TRUE(std::isnan(SiluAndSlope(nan).silu) && std::isnan(SiluAndSlope(nan).slope));
}

TEST_F(BodiesTest, Swiglu) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const Array x = Stored<T>(Random({shape.rows, 2 * shape.columns}, 3));
    const Array dy = Stored<T>(Random({shape.rows, shape.columns}));
    Buffer<T> from(x, run), grad(dy, run), y(dy.type.elements(), run);
    RunOnHost(Swiglu<T>{from.data(), y.data(), shape.rows, shape.columns}, run.threads);
    ExpectSame(y, RunKernel(Op::kSwiglu, {x}, {})[0]);
    Buffer<T> dx(x.type.elements(), run);
    RunOnHost(SwigluGrad<T>{grad.data(), from.data(), dx.data(), shape.rows, shape.columns},
              run.threads);
    ExpectSame(dx, RunKernel(Op::kSwigluGrad, {dy, x}, {})[0]);
  });
}

// Only a part of the possible rows is received.
TEST_F(BodiesTest, SwigluOfExperts) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const int64_t came = (shape.rows + 1) / 2, width = shape.columns;
    const Array x = Stored<T>(Random({came, 2 * width}, 3));
    const Array dy = Stored<T>(Random({came, width}));
    const Array weight = Random({came});
    Array received = cpu::MakeArray(cpu::I32({1, 1}));
    received.i32()[0] = static_cast<int32_t>(came);
    Buffer<T> from(x, run), grad(dy, run), y(came * width, run), dx(2 * came * width, run);
    Buffer<float> factor(weight, run), dweight(came, run);
    RunOnHost(Swiglu<T>{from.data(), y.data(), shape.rows, width, factor.data(), received.i32()},
              run.threads);
    ExpectSame(y, RunKernel(Op::kExpertSwiglu, {x, weight, received}, {})[0]);
    RunOnHost(SwigluGrad<T>{grad.data(), from.data(), dx.data(), shape.rows, width, factor.data(),
                            dweight.data(), received.i32()},
              run.threads);
    const std::vector<Array> grads =
        RunKernel(Op::kExpertSwigluGrad, {dy, x, weight, received}, {});
    ExpectSame(dx, grads[0]);
    ExpectSame(dweight, grads[1], 1e-5f, Largest(dy) * Largest(x) * Largest(x));
  });
}

TEST_F(BodiesTest, ColumnSum) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    for (const int64_t rows : {shape.rows, 3 * shape.rows}) {
      const Array dy = Stored<T>(Random({rows, shape.columns}));
      Buffer<T> from(dy, run);
      Buffer<float> sum(shape.columns, run), partial(ColumnSumFloats(rows, shape.columns), run);
      ColumnSum<T> body{from.data(), sum.data(), rows, shape.columns, shape.columns};
      SumColumns(HostRun{run.threads}, body, partial.data());
      const Array once = RunKernel(Op::kColumnSum, {dy}, {})[0];
      ExpectSame(sum, once, 1e-5f, Largest(dy));
      body.accumulate = true;
      SumColumns(HostRun{run.threads}, body, partial.data());
      ExpectSame(sum, RunKernel(Op::kScale, {once}, {2.0})[0], 1e-5f, Largest(dy));
    }
  });
}

// Both norms of whole rows; P is the type of gamma and beta.
template <NormKind kKind, typename T, typename P>
void CheckNorm(RowShape shape, BodyRun run, const Array& x, const Array& dy, const Array& gamma,
               const Array& beta, const Array& z) {
  constexpr bool kLayer = kKind == NormKind::kLayer;
  const auto [rows, columns] = shape;
  Buffer<T> from(x, run), grad(dy, run), y(x.type.elements(), run), dx(x.type.elements(), run);
  Buffer<P> weight(gamma, run), shift(beta, run);
  Buffer<float> mean(rows, run), rstd(rows, run);
  RunOnHost(Norm<kKind, T, P>{from.data(), weight.data(), kLayer ? shift.data() : nullptr, y.data(),
                              mean.data(), rstd.data(), rows, columns, 1e-5f},
            run.threads);
  std::vector<Array> in = {x, gamma};
  if (kLayer) in.push_back(beta);
  const std::vector<Array> out = RunKernel(kLayer ? Op::kLayerNorm : Op::kRmsNorm, in, {1e-5});
  ExpectSame(y, out[0], 1e-5f, Largest(gamma));
  if (kLayer) ExpectSame(mean, out[1], 1e-5f, Largest(x));
  ExpectSame(rstd, out.back());

  in = kLayer ? std::vector<Array>{dy, x, gamma, out[1], out[2]}
              : std::vector<Array>{dy, x, gamma, out[1]};
  const std::vector<Array> grads =
      RunKernel(kLayer ? Op::kLayerNormGrad : Op::kRmsNormGrad, in, {});
  constexpr int kSums = NormGradOperands<kKind, T, P>::kSums;
  const int64_t tasks = NormGradTasks(rows, columns);
  Buffer<float> partial(tasks * kSums * columns, run);
  NormGradOperands<kKind, T, P> operands = {
      grad.data(),   from.data(), weight.data(),  mean.data(), rstd.data(),
      /*z=*/nullptr, dx.data(),   partial.data(), rows,        columns};
  Buffer<T> more(z, run), added(rows * columns, run), sum(rows * columns, run);
  const auto check = [&](auto body, const char* name) {
    SCOPED_TRACE(name);
    dx.Set(std::nanf(""));
    partial.Set(std::nanf(""));
    RunOnHost(body, run.threads);
    ExpectSame(dx, grads[0], 1e-5f, Largest(dy) * Largest(gamma) * Largest(out.back()));
    Buffer<float> left(columns, run), right(columns, run);
    left.Set(3);
    right.Set(5);
    ColumnSum<float> second{partial.data(),  left.data(), tasks, kSums * columns,
                            kSums * columns, 1,           true};
    if (kSums == 2) second.right = right.data();
    Buffer<float> room(ColumnSumFloats(tasks, kSums * columns), run);
    SumColumns(HostRun{run.threads}, second, room.data());
    for (int64_t c = 0; c < columns; ++c) left.data()[c] -= 3;
    const float term = std::max(3.0f, Largest(dy) * Largest(x) * Largest(out.back()));
    ExpectSame(left, grads[1], 1e-5f, term);
    if (kSums == 2) ExpectSame(right, grads[2], 1e-5f, term);
    // With z every bit is as of an addition afterwards.
    RunOnHost(Add<T>{dx.data(), more.data(), sum.data(), rows * columns}, run.threads);
    body.z = more.data();
    body.dx = added.data();
    RunOnHost(body, run.threads);
    EXPECT_EQ(std::memcmp(added.data(), sum.data(), sizeof(T) * rows * columns), 0);
  };
  check(NormGrad<kKind, T, P>{operands}, "in scratch memory");
  const LongestNormGrad<kKind, T, P> longest{operands};
  if (!longest.fits()) return;
  check(longest, "in registers");
  const LongNormGrad<kKind, T, P> in_long{operands};
  if (in_long.fits()) check(in_long, "in registers, 2048");
  const ShortNormGrad<kKind, T, P> in_short{operands};
  if (in_short.fits()) check(in_short, "in registers, 1024");
}

TEST_F(BodiesTest, Norms) {
  ForEveryRun([this](RowShape shape, BodyRun run, auto type) {
    using T = decltype(type);
    const Array x = Stored<T>(Random({shape.rows, shape.columns}));
    const Array dy = Stored<T>(Random({shape.rows, shape.columns}));
    const Array z = Stored<T>(Random({shape.rows, shape.columns}));
    const Array gamma = Stored<Bf16>(Random({shape.columns}));
    const Array beta = Stored<Bf16>(Random({shape.columns}));
    CheckNorm<NormKind::kLayer, T, float>(shape, run, x, dy, gamma, beta, z);
    CheckNorm<NormKind::kLayer, T, T>(shape, run, x, dy, gamma, beta, z);
    CheckNorm<NormKind::kRms, T, float>(shape, run, x, dy, gamma, beta, z);
    CheckNorm<NormKind::kRms, T, T>(shape, run, x, dy, gamma, beta, z);
  });
}

}  // namespace
}  // namespace stringline::cuda
