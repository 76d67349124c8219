// The kernels added by Llama and its relatives, against their formulas in double, over odd sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

using Numbers = std::vector<double>;

class LlamaTruth : public SeededTest {};

struct Normed {
  Numbers y, dx;
  double rstd = 0;
};

// A row; adds to dgamma.
Normed NormOf(const float* x, const float* dy, const float* gamma, int64_t size, double epsilon,
              double* dgamma) {
  Normed row{Numbers(size), Numbers(size)};
  double mean_square = 0, gh = 0;
  for (int64_t c = 0; c < size; ++c) {
    mean_square += double{x[c]} * x[c] / static_cast<double>(size);
  }
  row.rstd = 1 / std::sqrt(mean_square + epsilon);
  for (int64_t c = 0; c < size; ++c) {
    row.y[c] = x[c] * row.rstd * gamma[c];
    dgamma[c] += dy[c] * x[c] * row.rstd;
    gh += double{dy[c]} * gamma[c] * x[c] * row.rstd / static_cast<double>(size);
  }
  for (int64_t c = 0; c < size; ++c) {
    row.dx[c] = row.rstd * (double{dy[c]} * gamma[c] - x[c] * row.rstd * gh);
  }
  return row;
}

// As for layer_norm: a spread of 1e-3 gives a mean square far below the epsilon of 1e-5.
TEST_F(LlamaTruth, RmsNorm) {
  for (const int64_t columns : {1, 5, 15, 16, 17, 33, 100}) {
    for (const double epsilon : {1e-5, 1e-6, 0.1}) {
      for (const float spread : {1.0f, 1e-3f, 50.0f}) {
        SCOPED_TRACE(absl::StrCat(columns, " columns, epsilon ", epsilon, ", spread ", spread));
        const int64_t rows = 3;
        const Array x = Random({rows, columns}, spread), dy = Random({rows, columns});
        const Array gamma = Random({columns});
        Numbers y, dx, dgamma(columns), rstds;
        for (int64_t n = 0; n < rows; ++n) {
          const Normed row = NormOf(x.f32() + n * columns, dy.f32() + n * columns, gamma.f32(),
                                    columns, epsilon, dgamma.data());
          y.insert(y.end(), row.y.begin(), row.y.end());
          dx.insert(dx.end(), row.dx.begin(), row.dx.end());
          rstds.push_back(row.rstd);
        }
        const std::vector<Array> out = RunKernel(Op::kRmsNorm, {x, gamma}, {epsilon});
        ExpectClose(out[0], y, 2e-6);
        ExpectClose(out[1], rstds, 2e-6);
        const std::vector<Array> grads = RunKernel(Op::kRmsNormGrad, {dy, x, gamma, out[1]}, {});
        const double largest = *std::max_element(rstds.begin(), rstds.end());
        ExpectClose(grads[0], dx, 5e-6 * (1 + largest));
        ExpectClose(grads[1], dgamma, 5e-6);
      }
    }
  }
}

TEST_F(LlamaTruth, HeadNorm) {
  const int64_t batch = 2, positions = 3, queries = 4, keys = 2;
  for (const int64_t size : {1, 3, 16, 20, 64}) {
    SCOPED_TRACE(absl::StrCat("heads of ", size));
    const int64_t width = (queries + 2 * keys) * size;
    const Array qkv = Random({batch, positions, width}), dy = Random({batch, positions, width});
    const Array gammas[] = {Random({size}), Random({size})};
    Numbers y(qkv.f32(), qkv.f32() + qkv.type.elements()), rstds;
    Numbers dqkv(dy.f32(), dy.f32() + dy.type.elements()), dgammas[] = {Numbers(size), y};
    dgammas[1].assign(size, 0);
    for (int64_t n = 0; n < batch * positions; ++n) {
      for (int64_t h = 0; h < queries + keys; ++h) {
        const int64_t at = n * width + h * size, kind = h < queries ? 0 : 1;
        const Normed head = NormOf(qkv.f32() + at, dy.f32() + at, gammas[kind].f32(), size, 1e-6,
                                   dgammas[kind].data());
        std::copy(head.y.begin(), head.y.end(), y.begin() + at);
        std::copy(head.dx.begin(), head.dx.end(), dqkv.begin() + at);
        rstds.push_back(head.rstd);
      }
    }
    const std::vector<Array> out =
        RunKernel(Op::kHeadNorm, {qkv, gammas[0], gammas[1]}, {4, 2, 1e-6});
    ExpectClose(out[0], y, 2e-6);
    ExpectClose(out[1], rstds, 2e-6);
    const std::vector<Array> grads =
        RunKernel(Op::kHeadNormGrad, {dy, qkv, gammas[0], gammas[1], out[1]}, {4, 2});
    const double largest = *std::max_element(rstds.begin(), rstds.end());
    ExpectClose(grads[0], dqkv, 5e-6 * (1 + largest));
    for (int i = 0; i < 2; ++i) ExpectClose(grads[1 + i], dgammas[i], 5e-6);
  }
}

// Also far from the first position: the angle is a product, without the error of many sums.
TEST_F(LlamaTruth, Rotary) {
  struct Case {
    int64_t positions, size, first = 0;
  };
  const int64_t queries = 3, keys = 1;
  for (const auto& [positions, size, first] : {Case{1, 2},
                                               {7, 2},
                                               {5, 6},
                                               {4, 34},
                                               {3, 64},
                                               {20000, 4},
                                               {1, 2, 1},
                                               {5, 6, 33},
                                               {300, 34, 20000}}) {
    for (const double theta : {1e4, 5e5}) {
      for (const double direction : {1.0, -1.0}) {
        SCOPED_TRACE(absl::StrCat(positions, " positions from ", first, ", heads of ", size,
                                  ", theta ", theta));
        const int64_t batch = 2, width = (queries + 2 * keys) * size;
        const Array x = Random({batch, positions, width});
        Numbers y(x.f32(), x.f32() + x.type.elements());
        for (int64_t n = 0; n < batch * positions; ++n) {
          for (int64_t h = 0; h < queries + keys; ++h) {
            for (int64_t d = 0; d < size / 2; ++d) {
              const double power = static_cast<double>(2 * d) / static_cast<double>(size);
              const double angle =
                  direction * static_cast<double>(first + n % positions) * std::pow(theta, -power);
              const int64_t low = n * width + h * size + d, high = low + size / 2;
              y[low] = x.f32()[low] * std::cos(angle) - x.f32()[high] * std::sin(angle);
              y[high] = x.f32()[high] * std::cos(angle) + x.f32()[low] * std::sin(angle);
            }
          }
        }
        ExpectClose(RunKernel(Op::kRotary, {x}, {3, 1, theta, direction, double(first)})[0], y,
                    5e-7);
      }
    }
  }
}

TEST_F(LlamaTruth, RotaryOfDocuments) {
  const int64_t queries = 2, keys = 1, size = 6, batch = 2, width = (queries + 2 * keys) * size;
  for (const int64_t positions : {1, 7, 300}) {
    for (const double direction : {1.0, -1.0}) {
      const Array x = Random({batch, positions, width});
      const Array in_documents = DocumentPositions(batch, positions, 40, random_);
      Numbers y(x.f32(), x.f32() + x.type.elements());
      for (int64_t n = 0; n < batch * positions; ++n) {
        for (int64_t h = 0; h < queries + keys; ++h) {
          for (int64_t d = 0; d < size / 2; ++d) {
            const double power = static_cast<double>(2 * d) / static_cast<double>(size);
            const double angle = direction * in_documents.i32()[n] * std::pow(1e4, -power);
            const int64_t low = n * width + h * size + d, high = low + size / 2;
            y[low] = x.f32()[low] * std::cos(angle) - x.f32()[high] * std::sin(angle);
            y[high] = x.f32()[high] * std::cos(angle) + x.f32()[low] * std::sin(angle);
          }
        }
      }
      ExpectClose(RunKernel(Op::kPackedRotary, {x, in_documents}, {2, 1, 1e4, direction})[0], y,
                  5e-7);
    }
  }
}

TEST_F(LlamaTruth, Swiglu) {
  for (const int64_t columns : {1, 15, 16, 17, 70}) {
    for (const float spread : {1.0f, 30.0f}) {
      SCOPED_TRACE(absl::StrCat(columns, " columns, spread ", spread));
      const int64_t rows = 9;
      const Array x = Random({rows, 2 * columns}, spread), dy = Random({rows, columns});
      Numbers y(rows * columns), dx(rows * 2 * columns);
      for (int64_t n = 0; n < rows; ++n) {
        for (int64_t c = 0; c < columns; ++c) {
          const int64_t at = n * columns + c, gate = n * 2 * columns + c, up = gate + columns;
          const double g = x.f32()[gate], u = x.f32()[up], d = dy.f32()[at];
          const double s = 1 / (1 + std::exp(-g));
          y[at] = g * s * u;
          dx[gate] = d * u * s * (1 + g * (1 - s));
          dx[up] = d * g * s;
        }
      }
      ExpectClose(RunKernel(Op::kSwiglu, {x}, {})[0], y, 1e-6);
      ExpectClose(RunKernel(Op::kSwigluGrad, {dy, x}, {})[0], dx, 1e-6);
    }
  }
}

// For large inputs the gate is shut or open: no intermediate product of infinity and 0.
TEST_F(LlamaTruth, SwigluFarOut) {
  const float points[] = {-3e38f, -1e30f, -1e5f, -200, 200, 1e5f, 1e30f, 3e38f};
  Array x = MakeArray({DType::kF32, {8, 2}}), dy = MakeArray({DType::kF32, {8, 1}});
  for (int i = 0; i < 8; ++i) {
    x.f32()[2 * i] = points[i];
    x.f32()[2 * i + 1] = dy.f32()[i] = 1;
  }
  const Array y = RunKernel(Op::kSwiglu, {x}, {})[0];
  const Array dx = RunKernel(Op::kSwigluGrad, {dy, x}, {})[0];
  for (int i = 0; i < 8; ++i) {
    const float silu = points[i] < 0 ? 0 : points[i];
    EXPECT_NEAR(y.f32()[i], silu, 1e-30) << points[i];
    EXPECT_NEAR(dx.f32()[2 * i], points[i] < 0 ? 0 : 1, 1e-30) << points[i];
    EXPECT_NEAR(dx.f32()[2 * i + 1], silu, 1e-30) << points[i];
  }
}

TEST_F(LlamaTruth, LinearAdd) {
  const int64_t rows = 5, in = 7, outs = 19;
  const Array x = Random({rows, in}), w = Random({outs, in}), z = Random({rows, outs});
  Numbers y(z.f32(), z.f32() + rows * outs);
  for (int64_t i = 0; i < rows * outs; ++i) {
    for (int64_t k = 0; k < in; ++k) {
      y[i] += double{x.f32()[i / outs * in + k]} * w.f32()[i % outs * in + k];
    }
  }
  ExpectClose(RunKernel(Op::kLinearAdd, {x, w, z}, {})[0], y, 5e-6);
}

}  // namespace
}  // namespace stringline::cpu
