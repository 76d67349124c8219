// Causal attention and its gradient against their formulas in double, written down plainly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

struct Shape {
  int64_t batch, positions, heads, size;
  int64_t kv_heads = heads;
  int64_t width() const { return heads * size; }
  int64_t stride() const { return (heads + 2 * kv_heads) * size; }  // a row of qkv
};

// All results of one attention, in the layouts of the op.
struct Truth {
  std::vector<double> y, lse, dqkv;
};

Truth Attend(const Shape& s, const Array& qkv, const Array& dy) {
  const int64_t width = s.width();
  Truth truth;
  truth.y.resize(s.batch * s.positions * width);
  truth.lse.resize(s.batch * s.heads * s.positions);
  truth.dqkv.resize(s.batch * s.positions * s.stride());
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h * s.kv_heads / s.heads;
      const int64_t head_of[] = {h, s.heads + kv, s.heads + s.kv_heads + kv};
      const auto index = [&](int third, int64_t t, int64_t d) {
        return (b * s.positions + t) * s.stride() + head_of[third] * s.size + d;
      };
      const auto in = [&](int third, int64_t t, int64_t d) -> double {
        return qkv.f32()[index(third, t, d)];
      };
      const double root = std::sqrt(static_cast<double>(s.size));
      for (int64_t i = 0; i < s.positions; ++i) {
        std::vector<double> p(i + 1), dp(i + 1);
        double most = -INFINITY, total = 0, delta = 0;
        for (int64_t j = 0; j <= i; ++j) {
          for (int64_t d = 0; d < s.size; ++d) p[j] += in(0, i, d) * in(1, j, d) / root;
          most = std::max(most, p[j]);
        }
        for (double& score : p) total += (score = std::exp(score - most));
        truth.lse[(b * s.heads + h) * s.positions + i] = most + std::log(total);
        for (int64_t j = 0; j <= i; ++j) {
          p[j] /= total;
          for (int64_t d = 0; d < s.size; ++d) {
            const int64_t at = (b * s.positions + i) * width + h * s.size + d;
            truth.y[at] += p[j] * in(2, j, d);
            dp[j] += dy.f32()[at] * in(2, j, d);
            truth.dqkv[index(2, j, d)] += p[j] * dy.f32()[at];
          }
          delta += p[j] * dp[j];
        }
        for (int64_t j = 0; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - delta) / root;
          for (int64_t d = 0; d < s.size; ++d) {
            truth.dqkv[index(0, i, d)] += ds * in(1, j, d);
            truth.dqkv[index(1, j, d)] += ds * in(0, i, d);
          }
        }
      }
    }
  }
  return truth;
}

// The backward gets the forward's results rounded from double, so each is judged alone.
void Check(const Shape& s, float factor, double tolerance, std::mt19937_64& random) {
  SCOPED_TRACE(absl::StrCat(s.batch, " of ", s.positions, " positions, ", s.heads, " heads of ",
                            s.size, ", ", s.kv_heads, " of keys, times ", factor));
  Array qkv = RandomArray({DType::kF32, {s.batch, s.positions, s.stride()}}, random);
  for (int64_t i = 0; i < qkv.type.elements(); ++i) qkv.f32()[i] *= factor;
  const Array dy = RandomArray({DType::kF32, {s.batch, s.positions, s.width()}}, random);
  const Truth truth = Attend(s, qkv, dy);
  const std::vector<double> heads = {static_cast<double>(s.heads), static_cast<double>(s.kv_heads)};
  const std::vector<Array> out = RunKernel(Op::kAttention, {qkv}, heads);
  ExpectClose(out[0], truth.y, tolerance);
  ExpectClose(out[1], truth.lse, tolerance);
  std::copy(truth.y.begin(), truth.y.end(), out[0].f32());
  std::copy(truth.lse.begin(), truth.lse.end(), out[1].f32());
  const Array dqkv = RunKernel(Op::kAttentionGrad, {dy, qkv, out[0], out[1]}, heads)[0];
  ExpectClose(dqkv, truth.dqkv, 2 * tolerance);
}

TEST(AttentionTruth, OddShapes) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const int64_t positions : {1, 2, 15, 31, 32, 33, 64, 65, 129, 200}) {
    for (const int64_t size : {1, 3, 16, 20, 64, 80}) {
      Check({1, positions, 2, size}, 1, 5e-6, random);
      if (testing::Test::HasFailure()) return;
    }
  }
  Check({3, 45, 3, 5}, 1, 5e-6, random);
  Check({2, 70, 1, 32}, 1, 5e-6, random);
}

// Several heads of queries share keys and values; heads may have any width.
TEST(AttentionTruth, GroupsOfHeads) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const int64_t positions : {1, 31, 33, 70}) {
    for (const int64_t size : {3, 16, 20}) {
      Check({2, positions, 4, size, 2}, 1, 5e-6, random);
      Check({1, positions, 6, size, 2}, 1, 5e-6, random);
      Check({1, positions, 5, size, 1}, 1, 5e-6, random);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Scores of some hundreds: without subtracting the row's largest the exponentials would overflow.
TEST(AttentionTruth, LargeScores) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Check({2, 45, 3, 5}, 12, 2e-3, random);
  Check({1, 129, 1, 64}, 8, 2e-3, random);
}

}  // namespace
}  // namespace stringline::cpu
