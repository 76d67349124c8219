// Kernels against their formulas, written down naively in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stages/builder.h"
#include "tests/stages/random_values.h"

namespace stringline::cpu {
namespace {

// Runs one node on these inputs, overwriting; gives its outputs.
std::vector<Array> RunOp(Op op, const std::vector<Array>& inputs,
                         const std::vector<double>& attributes) {
  Builder builder;
  std::vector<ValueId> values;
  for (const Array& input : inputs) {
    values.push_back(builder.Input(Role::kSaved, static_cast<int>(values.size()), input.type, "x"));
  }
  const std::vector<ValueId> outputs = builder.AppendAll(op, values, attributes);
  for (ValueId value : outputs) {
    builder.Output(Role::kStash, static_cast<int>(builder.graph().outputs.size()), value);
  }
  StageState state;
  state.saved = inputs;
  Evaluate(builder.Finish(), &state);
  return state.stash;
}

class Kernels : public testing::Test {
 protected:
  Kernels()
      : random_(TestSeed()),
        trace_(__FILE__, __LINE__, "STRINGLINE_SEED=" + std::to_string(TestSeed())) {}
  Array Random(std::vector<int64_t> shape) {
    return RandomArray({DType::kF32, std::move(shape)}, random_);
  }
  std::mt19937_64 random_;
  testing::ScopedTrace trace_;
};

TEST_F(Kernels, Products) {
  const int rows = 37, in = 21, out = 50;
  const Array x = Random({rows, in}), w = Random({out, in}), dy = Random({rows, out});
  const Array y = RunOp(Op::kLinear, {x, w}, {})[0];
  const Array dx = RunOp(Op::kLinearInputGrad, {dy, w}, {})[0];
  const Array dw = RunOp(Op::kLinearWeightGrad, {dy, x}, {})[0];
  auto at = [](const Array& a, int i, int j) -> double { return a.f32()[i * a.type.shape[1] + j]; };
  for (int n = 0; n < rows; ++n) {
    for (int o = 0; o < out; ++o) {
      double sum = 0;
      for (int k = 0; k < in; ++k) sum += at(x, n, k) * at(w, o, k);
      ASSERT_NEAR(at(y, n, o), sum, 1e-4);
    }
    for (int k = 0; k < in; ++k) {
      double sum = 0;
      for (int o = 0; o < out; ++o) sum += at(dy, n, o) * at(w, o, k);
      ASSERT_NEAR(at(dx, n, k), sum, 1e-4);
    }
  }
  for (int o = 0; o < out; ++o) {
    for (int k = 0; k < in; ++k) {
      double sum = 0;
      for (int n = 0; n < rows; ++n) sum += at(dy, n, o) * at(x, n, k);
      ASSERT_NEAR(at(dw, o, k), sum, 1e-4);
    }
  }
}

TEST_F(Kernels, GeluOverItsWholeRange) {
  Array x = MakeArray({DType::kF32, {4001}});
  for (int i = 0; i <= 4000; ++i) x.f32()[i] = static_cast<float>(i - 2000) * 0.01f;
  const Array y = RunOp(Op::kGelu, {x}, {})[0];
  for (int i = 0; i <= 4000; ++i) {
    const double v = x.f32()[i];
    const double expected =
        v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    ASSERT_NEAR(y.f32()[i], expected, 1e-6 * (1 + std::abs(v))) << v;
  }
}

// Large scores: without subtracting the row's largest the exponentials would overflow.
TEST_F(Kernels, AttentionWithLargeScores) {
  const int batch = 2, positions = 45, heads = 3, size = 5, width = heads * size;
  const Array qkv = Random({batch, positions, 3 * width});
  for (int64_t i = 0; i < qkv.type.elements(); ++i) qkv.f32()[i] *= 12;
  const std::vector<Array> out = RunOp(Op::kAttention, {qkv}, {heads});
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      auto at = [&](int third, int t, int d) -> double {
        return qkv.f32()[(b * positions + t) * 3 * width + third * width + h * size + d];
      };
      for (int i = 0; i < positions; ++i) {
        std::vector<double> score(i + 1);
        double most = -INFINITY, total = 0;
        for (int j = 0; j <= i; ++j) {
          for (int d = 0; d < size; ++d) score[j] += at(0, i, d) * at(1, j, d);
          score[j] /= std::sqrt(static_cast<double>(size));
          most = std::max(most, score[j]);
        }
        for (double s : score) total += std::exp(s - most);
        ASSERT_NEAR(out[1].f32()[(b * heads + h) * positions + i], most + std::log(total),
                    1e-5 * (1 + std::abs(most)));
        for (int d = 0; d < size; ++d) {
          double sum = 0;
          for (int j = 0; j <= i; ++j) sum += std::exp(score[j] - most) / total * at(2, j, d);
          ASSERT_NEAR(out[0].f32()[(b * positions + i) * width + h * size + d], sum, 1e-2);
        }
      }
    }
  }
}

TEST_F(Kernels, CrossEntropyWithLargeLogits) {
  const int rows = 9, classes = 50;
  const Array logits = Random({rows, classes});
  for (int64_t i = 0; i < logits.type.elements(); ++i) logits.f32()[i] *= 100;
  const Array target = RandomArray({DType::kI32, {rows}}, random_, classes);
  const std::vector<Array> out = RunOp(Op::kCrossEntropy, {logits, target}, {});
  double loss = 0;
  for (int n = 0; n < rows; ++n) {
    const float* row = logits.f32() + n * classes;
    const double most = *std::max_element(row, row + classes);
    double total = 0;
    for (int v = 0; v < classes; ++v) total += std::exp(row[v] - most);
    EXPECT_NEAR(out[1].f32()[n], most + std::log(total), 1e-4);
    loss += most + std::log(total) - row[target.i32()[n]];
  }
  EXPECT_NEAR(*out[0].f32(), loss, 1e-6 * loss);
}

TEST_F(Kernels, SameInputsGiveTheSameBits) {
  const Array qkv = Random({3, 50, 3 * 24}), dy = Random({3, 50, 24});
  const std::vector<Array> once = RunOp(Op::kAttention, {qkv}, {4});
  const std::vector<Array> twice = RunOp(Op::kAttention, {qkv}, {4});
  const Array grad = RunOp(Op::kAttentionGrad, {dy, qkv, once[0], once[1]}, {4})[0];
  const Array again = RunOp(Op::kAttentionGrad, {dy, qkv, twice[0], twice[1]}, {4})[0];
  for (int64_t i = 0; i < grad.type.elements(); ++i) ASSERT_EQ(grad.f32()[i], again.f32()[i]);
  const Array dw = RunOp(Op::kLinearWeightGrad, {dy, qkv}, {})[0];
  const Array dw_again = RunOp(Op::kLinearWeightGrad, {dy, qkv}, {})[0];
  for (int64_t i = 0; i < dw.type.elements(); ++i) ASSERT_EQ(dw.f32()[i], dw_again.f32()[i]);
}

}  // namespace
}  // namespace stringline::cpu
