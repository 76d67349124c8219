// Kernels against their formulas, in double and as plain as possible, over sizes that are no
// multiples of a vector.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

using Numbers = std::vector<double>;

class KernelTruth : public SeededTest {};

TEST_F(KernelTruth, Products) {
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 2}, {16, 16, 16}, {37, 21, 50}, {130, 700, 33}};
  for (const auto& [rows, in, out] : sizes) {
    SCOPED_TRACE(absl::StrCat(rows, " x ", in, " x ", out));
    const Array x = Random({rows, in}), w = Random({out, in}), dy = Random({rows, out});
    const Array bias = Random({out}), residual = Random({rows, out});
    Numbers y(rows * out), dx(rows * in), dw(out * in);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t k = 0; k < in; ++k) {
          const double xs = x.f32()[n * in + k], ws = w.f32()[o * in + k];
          const double dys = dy.f32()[n * out + o];
          y[n * out + o] += xs * ws;
          dx[n * in + k] += dys * ws;
          dw[o * in + k] += dys * xs;
        }
      }
    }
    ExpectClose(RunKernel(Op::kLinear, {x, w}, {})[0], y, 6e-5);
    for (int64_t i = 0; i < rows * out; ++i) y[i] += bias.f32()[i % out];
    ExpectClose(RunKernel(Op::kLinearBias, {x, w, bias}, {})[0], y, 6e-5);
    for (int64_t i = 0; i < rows * out; ++i) y[i] += residual.f32()[i];
    ExpectClose(RunKernel(Op::kLinearResidual, {x, w, bias, residual}, {})[0], y, 6e-5);
    ExpectClose(RunKernel(Op::kLinearInputGrad, {dy, w}, {})[0], dx, 6e-5);
    ExpectClose(RunKernel(Op::kLinearWeightGrad, {dy, x}, {})[0], dw, 6e-5);
  }
}

// cross_entropy_grad with a log-sum-exp of 0 gives e^x: all the way from 0 to infinity.
TEST_F(KernelTruth, Exponential) {
  std::vector<float> points = {0,
                               1e-30f,
                               -1e-30f,
                               88.72283f,
                               88.7229f,
                               89,
                               100,
                               1e30f,
                               -87.4f,
                               -100,
                               -103.9f,
                               -104,
                               -1000,
                               -1e30f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  for (double x = -104; x < 89; x += 1.0 / 1024 + 1e-7) points.push_back(static_cast<float>(x));
  const auto count = static_cast<int64_t>(points.size()) + 1;
  Array x = MakeArray({DType::kF32, {1, count}});  // the last is the target
  std::copy(points.begin(), points.end(), x.f32());
  Array target = MakeArray({DType::kI32, {1}}), lse = MakeArray({DType::kF32, {1}});
  target.i32()[0] = static_cast<int32_t>(count - 1);
  Array one = MakeArray({DType::kF32, {}});
  *one.f32() = 1;
  const Array y = RunKernel(Op::kCrossEntropyGrad, {one, x, target, lse}, {})[0];
  double worst = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double exact = std::exp(double{points[i]});
    const float rounded = static_cast<float>(exact);
    const float seen = y.f32()[i];
    if (std::isinf(rounded) || rounded == 0) {
      EXPECT_EQ(seen, rounded) << points[i];
      continue;
    }
    const double ulp = double{std::nextafter(rounded, INFINITY)} - rounded;
    worst = std::max(worst, std::abs(seen - exact) / ulp);
    EXPECT_LE(std::abs(seen - exact), 1.5 * ulp) << points[i];
  }
  RecordProperty("worst_ulp", std::to_string(worst));
}

double GeluOf(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double GeluSlope(double x) {
  const double root = std::sqrt(2 / M_PI);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

TEST_F(KernelTruth, Gelu) {
  const int64_t count = 20001;
  Array x = MakeArray({DType::kF32, {count}}), dy = MakeArray({DType::kF32, {count}});
  Numbers y(count), dx(count);
  for (int64_t i = 0; i < count; ++i) {
    x.f32()[i] = static_cast<float>(i - count / 2) * 1e-3f;
    dy.f32()[i] = i % 2 == 0 ? 1.0f : -2.0f;
    y[i] = GeluOf(x.f32()[i]);
    dx[i] = dy.f32()[i] * GeluSlope(x.f32()[i]);
  }
  ExpectClose(RunKernel(Op::kGelu, {x}, {})[0], y, 4e-7);
  ExpectClose(RunKernel(Op::kGeluGrad, {dy, x}, {})[0], dx, 1e-6);
}

// For large inputs GELU is 0 or x, with a slope of 0 or 1: no intermediate product of infinity and
// 0.
TEST_F(KernelTruth, GeluFarOut) {
  const float points[] = {-3e38f, -1e30f, -1e15f, -1e5f, -20, 20, 1e5f, 1e15f, 1e30f, 3e38f};
  Array x = MakeArray({DType::kF32, {10}}), dy = MakeArray({DType::kF32, {10}});
  std::copy_n(points, 10, x.f32());
  std::fill_n(dy.f32(), 10, 1.0f);
  const Array y = RunKernel(Op::kGelu, {x}, {})[0];
  const Array dx = RunKernel(Op::kGeluGrad, {dy, x}, {})[0];
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(y.f32()[i], points[i] < 0 ? 0 : points[i]) << points[i];
    EXPECT_NEAR(dx.f32()[i], points[i] < 0 ? 0 : 1, 1e-30) << points[i];
  }
}

// A spread of 1e-3 gives a variance far below the epsilon of 1e-5, and near an epsilon of 1e-6:
// leaving epsilon out, or using another, is off by a factor.
TEST_F(KernelTruth, LayerNorm) {
  for (const int64_t columns : {1, 5, 15, 16, 17, 33, 100}) {
    for (const double epsilon : {1e-5, 1e-6, 0.1}) {
      for (const float spread : {1.0f, 1e-3f, 50.0f}) {
        SCOPED_TRACE(absl::StrCat(columns, " columns, epsilon ", epsilon, ", spread ", spread));
        const int64_t rows = 3;
        const Array x = Random({rows, columns}, spread), dy = Random({rows, columns});
        const Array gamma = Random({columns}), beta = Random({columns});
        Numbers y(rows * columns), dx(rows * columns), dgamma(columns), dbeta(columns);
        Numbers means(rows), rstds(rows);
        for (int64_t n = 0; n < rows; ++n) {
          const float* row = x.f32() + n * columns;
          double mean = 0, variance = 0, g_mean = 0, gh_mean = 0;
          for (int64_t c = 0; c < columns; ++c) mean += row[c] / static_cast<double>(columns);
          for (int64_t c = 0; c < columns; ++c) {
            variance += (row[c] - mean) * (row[c] - mean) / static_cast<double>(columns);
          }
          const double rstd = 1 / std::sqrt(variance + epsilon);
          means[n] = mean;
          rstds[n] = rstd;
          for (int64_t c = 0; c < columns; ++c) {
            const double h = (row[c] - mean) * rstd, d = dy.f32()[n * columns + c];
            y[n * columns + c] = h * gamma.f32()[c] + beta.f32()[c];
            dgamma[c] += d * h;
            dbeta[c] += d;
            g_mean += d * gamma.f32()[c] / static_cast<double>(columns);
            gh_mean += d * gamma.f32()[c] * h / static_cast<double>(columns);
          }
          for (int64_t c = 0; c < columns; ++c) {
            const double h = (row[c] - mean) * rstd;
            const double g = dy.f32()[n * columns + c] * gamma.f32()[c];
            dx[n * columns + c] = rstd * (g - g_mean - h * gh_mean);
          }
        }
        const std::vector<Array> out = RunKernel(Op::kLayerNorm, {x, gamma, beta}, {epsilon});
        ExpectClose(out[0], y, 5e-6);
        ExpectClose(out[1], means, 5e-7 * (1 + spread));
        ExpectClose(out[2], rstds, 2e-6);
        const std::vector<Array> grads =
            RunKernel(Op::kLayerNormGrad, {dy, x, gamma, out[1], out[2]}, {});
        const double largest = *std::max_element(rstds.begin(), rstds.end());
        ExpectClose(grads[0], dx, 5e-6 * (1 + largest));
        ExpectClose(grads[1], dgamma, 5e-6);
        ExpectClose(grads[2], dbeta, 5e-6);
      }
    }
  }
}

TEST_F(KernelTruth, CrossEntropy) {
  for (const int64_t classes : {1, 2, 7, 15, 16, 17, 31, 33, 256, 1000}) {
    for (const float spread : {1.0f, 30.0f, 1e4f}) {
      SCOPED_TRACE(absl::StrCat(classes, " classes, spread ", spread));
      const int64_t rows = 5;
      const Array logits = Random({rows, classes}, spread);
      const Array target =
          RandomArray({DType::kI32, {rows}}, random_, static_cast<int32_t>(classes));
      target.i32()[2] = kNoTarget;
      const double seed = -1.25;
      Array dloss = MakeArray({DType::kF32, {}});
      *dloss.f32() = static_cast<float>(seed);
      Numbers lse(rows), grad(rows * classes);
      double loss = 0;
      for (int64_t n = 0; n < rows; ++n) {
        const float* row = logits.f32() + n * classes;
        const double most = *std::max_element(row, row + classes);
        double total = 0;
        for (int64_t v = 0; v < classes; ++v) total += std::exp(row[v] - most);
        lse[n] = most + std::log(total);
        if (target.i32()[n] == kNoTarget) continue;  // a gradient of 0
        loss += lse[n] - row[target.i32()[n]];
        for (int64_t v = 0; v < classes; ++v) {
          grad[n * classes + v] =
              seed * (std::exp(row[v] - lse[n]) - (v == target.i32()[n] ? 1 : 0));
        }
      }
      const std::vector<Array> out = RunKernel(Op::kCrossEntropy, {logits, target}, {});
      ExpectClose(out[0], {loss}, 2e-6 * (1 + std::sqrt(spread) / 3));
      ExpectClose(out[1], lse, 1e-6);
      // An lse of 4e4 has a last place of 0.004, the error of a gradient of such logits.
      const Array dlogits =
          RunKernel(Op::kCrossEntropyGrad, {dloss, logits, target, out[1]}, {})[0];
      ExpectClose(dlogits, grad, 2e-6 * (1 + spread));
    }
  }
}

TEST_F(KernelTruth, SumsOverRows) {
  for (const int64_t columns : {1, 17, 64, 70, 200}) {
    SCOPED_TRACE(absl::StrCat(columns, " columns"));
    const int64_t rows = 31;
    const Array dy = Random({rows, columns});
    Numbers sum(columns);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t c = 0; c < columns; ++c) sum[c] += dy.f32()[n * columns + c];
    }
    ExpectClose(RunKernel(Op::kColumnSum, {dy}, {})[0], sum, 3e-6);
  }
}

// The rank of a number is how many are above it, or equal and before it; NaN is above all.
TEST_F(KernelTruth, TopKPutsEachNumberAtItsRank) {
  for (const bool largest : {true, false}) {
    for (const int64_t columns : {1, 2, 7, 40}) {
      SCOPED_TRACE(absl::StrCat(columns, largest ? " largest" : " smallest"));
      Array x = Random({5, columns});
      for (int64_t i = 0; i < 5 * columns; ++i) x.f32()[i] = std::round(2 * x.f32()[i]);  // ties
      if (columns > 2) x.f32()[1] = x.f32()[columns + 2] = NAN;
      const auto above = [](float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; };
      for (const int64_t count : {int64_t{1}, (columns + 1) / 2, columns}) {
        const std::vector<Array> out =
            RunKernel(Op::kTopK, {x}, {static_cast<double>(count), largest ? 1.0 : 0.0});
        for (int64_t n = 0; n < 5; ++n) {
          const float* const row = x.f32() + n * columns;
          for (int64_t c = 0; c < columns; ++c) {
            int64_t rank = 0;
            for (int64_t o = 0; o < columns; ++o) {
              const bool before = largest ? above(row[o], row[c]) : above(row[c], row[o]);
              const bool behind = largest ? above(row[c], row[o]) : above(row[o], row[c]);
              rank += before || (!behind && o < c);
            }
            if (rank >= count) continue;
            EXPECT_EQ(out[1].i32()[n * count + rank], c);
            EXPECT_EQ(std::memcmp(&out[0].f32()[n * count + rank], &row[c], 4), 0);
          }
        }
      }
    }
  }
}

TEST_F(KernelTruth, GatherAndScatterAlongEachDimension) {
  for (const int64_t dim : {0, 1, 2}) {
    SCOPED_TRACE(dim);
    std::vector<int64_t> sizes = {4, 5, 3}, fewer = sizes;
    fewer[dim] = 6;
    const Array x = Random(sizes), dy = Random(fewer);
    const Array index = RandomArray(I32(fewer), random_, static_cast<int32_t>(sizes[dim]));
    Numbers gathered, added(60, 0), last(60, 0);
    for (int64_t i = 0; i < dy.type.elements(); ++i) {
      int64_t at[3] = {i / (fewer[1] * fewer[2]), i / fewer[2] % fewer[1], i % fewer[2]};
      at[dim] = index.i32()[i];
      const int64_t place = (at[0] * 5 + at[1]) * 3 + at[2];
      gathered.push_back(x.f32()[place]);
      added[place] += dy.f32()[i];
      last[place] = dy.f32()[i];
    }
    const auto d = static_cast<double>(dim), size = static_cast<double>(sizes[dim]);
    ExpectClose(RunKernel(Op::kGather, {x, index}, {d})[0], gathered, 0);
    ExpectClose(RunKernel(Op::kScatter, {dy, index}, {d, size, 1})[0], added, 1e-6);
    ExpectClose(RunKernel(Op::kScatter, {dy, index}, {d, size, 0})[0], last, 0);
  }
}

TEST_F(KernelTruth, WholeNumbersHaveNoFraction) {
  constexpr int32_t kNone = std::numeric_limits<int32_t>::min();
  Array x = Random({9});
  const float given[] = {2.9f, -2.9f, 0.0f,      16777216.0f,  -16777215.0f,
                         1.0f, NAN,   -INFINITY, 2147483648.0f};
  const int32_t wanted[] = {2, -2, 0, 16777216, -16777215, 1, kNone, kNone, kNone};
  std::copy(std::begin(given), std::end(given), x.f32());
  const Array whole = RunKernel(Op::kWhole, {x}, {})[0];
  EXPECT_TRUE(std::equal(std::begin(wanted), std::end(wanted), whole.i32()));
  ExpectClose(RunKernel(Op::kFloat, {whole}, {})[0], {std::begin(wanted), std::end(wanted)}, 0);
}

}  // namespace
}  // namespace stringline::cpu
