// Causal attention and its gradient against their formulas in double, written down plainly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

struct Shape {
  int64_t batch, positions, heads, size;
  int64_t kv_heads = heads;
  int64_t past = 0;  // rows of keys and values before the sequence's; 0: plain attention
  int64_t width() const { return heads * size; }
  int64_t stride() const { return (heads + 2 * kv_heads) * size; }  // a row of qkv
  int64_t past_stride() const { return 2 * kv_heads * size; }
};

// All results of one attention, in the layouts of the op.
struct Truth {
  std::vector<double> y, lse, dqkv, dpast;
};

// One head of queries of one sequence. Rows are counted from the first of the past.
class TrueHead {
 public:
  TrueHead(const Shape& s, int64_t b, int64_t h, const Array& qkv, const Array& past, Truth* truth)
      : s_(s), b_(b), h_(h), kv_(h * s.kv_heads / s.heads), qkv_(qkv), past_(past), truth_(truth) {}

  // Query `row`, which attends to the rows from `first` up to its own.
  void Attend(int64_t row, const Array& dy, int64_t first = 0) {
    const double root = std::sqrt(static_cast<double>(s_.size));
    std::vector<double> p(row + 1), dp(row + 1);
    double most = -INFINITY, total = 0, delta = 0;
    for (int64_t j = first; j <= row; ++j) {
      for (int64_t d = 0; d < s_.size; ++d) p[j] += In(0, row, d) * In(1, j, d) / root;
      most = std::max(most, p[j]);
    }
    for (int64_t j = first; j <= row; ++j) total += (p[j] = std::exp(p[j] - most));
    const int64_t i = row - s_.past;
    truth_->lse[(b_ * s_.heads + h_) * s_.positions + i] = most + std::log(total);
    for (int64_t j = first; j <= row; ++j) {
      p[j] /= total;
      for (int64_t d = 0; d < s_.size; ++d) {
        const int64_t at = (b_ * s_.positions + i) * s_.width() + h_ * s_.size + d;
        truth_->y[at] += p[j] * In(2, j, d);
        dp[j] += dy.f32()[at] * In(2, j, d);
        Grad(2, j, d) += p[j] * dy.f32()[at];
      }
      delta += p[j] * dp[j];
    }
    for (int64_t j = first; j <= row; ++j) {
      const double ds = p[j] * (dp[j] - delta) / root;
      for (int64_t d = 0; d < s_.size; ++d) {
        Grad(0, row, d) += ds * In(1, j, d);
        Grad(1, j, d) += ds * In(0, row, d);
      }
    }
  }

 private:
  // third: 0 for queries, 1 for keys, 2 for values.
  int64_t IndexInPast(int third, int64_t row, int64_t d) const {
    const int64_t head = third == 1 ? kv_ : s_.kv_heads + kv_;
    return (b_ * s_.past + row) * s_.past_stride() + head * s_.size + d;
  }
  int64_t Index(int third, int64_t row, int64_t d) const {
    const int64_t heads[] = {h_, s_.heads + kv_, s_.heads + s_.kv_heads + kv_};
    return (b_ * s_.positions + row - s_.past) * s_.stride() + heads[third] * s_.size + d;
  }
  double In(int third, int64_t row, int64_t d) const {
    return row < s_.past ? past_.f32()[IndexInPast(third, row, d)]
                         : qkv_.f32()[Index(third, row, d)];
  }
  double& Grad(int third, int64_t row, int64_t d) const {
    return row < s_.past ? truth_->dpast[IndexInPast(third, row, d)]
                         : truth_->dqkv[Index(third, row, d)];
  }

  const Shape& s_;
  const int64_t b_, h_, kv_;
  const Array& qkv_;
  const Array& past_;
  Truth* const truth_;
};

// `positions`: of packed sequences, whose queries see their own document; null for others.
Truth Attend(const Shape& s, const Array& qkv, const Array& past, const Array& dy,
             const Array* positions = nullptr) {
  Truth truth;
  truth.y.resize(s.batch * s.positions * s.width());
  truth.lse.resize(s.batch * s.heads * s.positions);
  truth.dqkv.resize(s.batch * s.positions * s.stride());
  truth.dpast.resize(s.batch * s.past * s.past_stride());
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      TrueHead head(s, b, h, qkv, past, &truth);
      for (int64_t i = 0; i < s.positions; ++i) {
        const int64_t first = positions == nullptr ? 0 : i - positions->i32()[b * s.positions + i];
        head.Attend(s.past + i, dy, first);
      }
    }
  }
  return truth;
}

Array RandomTimes(std::vector<int64_t> shape, float factor, std::mt19937_64& random) {
  Array array = RandomArray(F32(std::move(shape)), random);
  for (int64_t i = 0; i < array.type.elements(); ++i) array.f32()[i] *= factor;
  return array;
}

// The backward gets the forward's results rounded from double, so each is judged alone.
void Check(const Shape& s, float factor, double tolerance, std::mt19937_64& random) {
  SCOPED_TRACE(absl::StrCat(s.batch, " of ", s.positions, " positions after ", s.past, ", ",
                            s.heads, " heads of ", s.size, ", ", s.kv_heads, " of keys, times ",
                            factor));
  const Array qkv = RandomTimes({s.batch, s.positions, s.stride()}, factor, random);
  const Array past = RandomTimes({s.batch, s.past, s.past_stride()}, factor, random);
  const Array dy = RandomArray(F32({s.batch, s.positions, s.width()}), random);
  const Truth truth = Attend(s, qkv, past, dy);
  const std::vector<double> heads = {static_cast<double>(s.heads), static_cast<double>(s.kv_heads)};
  const std::vector<Array> out = s.past == 0 ? RunKernel(Op::kAttention, {qkv}, heads)
                                             : RunKernel(Op::kAttentionPast, {qkv, past}, heads);
  ExpectClose(out[0], truth.y, tolerance);
  ExpectClose(out[1], truth.lse, tolerance);
  std::copy(truth.y.begin(), truth.y.end(), out[0].f32());
  std::copy(truth.lse.begin(), truth.lse.end(), out[1].f32());
  const std::vector<Array> grads =
      s.past == 0 ? RunKernel(Op::kAttentionGrad, {dy, qkv, out[0], out[1]}, heads)
                  : RunKernel(Op::kAttentionPastGrad, {dy, qkv, past, out[0], out[1]}, heads);
  ExpectClose(grads[0], truth.dqkv, 2 * tolerance);
  if (s.past > 0) ExpectClose(grads[1], truth.dpast, 2 * tolerance);
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

// A past shorter and longer than a block of queries, of whole blocks and not.
TEST(AttentionTruth, AfterAPast) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const int64_t past : {1, 31, 32, 64, 77}) {
    for (const int64_t positions : {1, 16, 33, 70}) {
      Check({2, positions, 2, 20, 2, past}, 1, 5e-6, random);
      Check({1, positions, 1, 64, 1, past}, 1, 5e-6, random);
      Check({1, positions, 6, 3, 2, past}, 1, 5e-6, random);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Documents shorter and longer than a block of queries, among them some of one token.
TEST(AttentionTruth, OfDocuments) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const Shape& s :
       {Shape{2, 1, 2, 3}, {2, 40, 4, 5, 2}, {1, 200, 2, 20}, {3, 129, 3, 16, 1}}) {
    for (const int64_t mean : {1, 6, 50, 1000}) {
      SCOPED_TRACE(absl::StrCat(s.batch, " of ", s.positions, " positions, documents of ", mean));
      const Array qkv = RandomArray(F32({s.batch, s.positions, s.stride()}), random);
      const Array dy = RandomArray(F32({s.batch, s.positions, s.width()}), random);
      const Array positions = DocumentPositions(s.batch, s.positions, mean, random);
      const Truth truth = Attend(s, qkv, Array(), dy, &positions);
      const std::vector<double> heads = {double(s.heads), double(s.kv_heads)};
      const std::vector<Array> out = RunKernel(Op::kPackedAttention, {qkv, positions}, heads);
      ExpectClose(out[0], truth.y, 5e-6);
      ExpectClose(out[1], truth.lse, 5e-6);
      const Array grad =
          RunKernel(Op::kPackedAttentionGrad, {dy, qkv, positions, out[0], out[1]}, heads)[0];
      ExpectClose(grad, truth.dqkv, 1e-5);
    }
  }
}

// A sequence that is one document has the bits of one without documents.
TEST(AttentionTruth, OfOneDocumentIsThatOfTheSequence) {
  std::mt19937_64 random(TestSeed());
  Array positions = MakeArray(I32({2, 70}));
  for (int32_t i = 0; i < 140; ++i) positions.i32()[i] = i % 70;
  const Array qkv = RandomArray(F32({2, 70, 32}), random),
              dy = RandomArray(F32({2, 70, 16}), random);
  const std::vector<double> heads = {4, 2};
  const std::vector<Array> whole = RunKernel(Op::kAttention, {qkv}, heads);
  const std::vector<Array> packed = RunKernel(Op::kPackedAttention, {qkv, positions}, heads);
  const Array grad = RunKernel(Op::kAttentionGrad, {dy, qkv, whole[0], whole[1]}, heads)[0];
  const Array same =
      RunKernel(Op::kPackedAttentionGrad, {dy, qkv, positions, packed[0], packed[1]}, heads)[0];
  for (const auto& [a, b] : {std::pair(whole[0], packed[0]), {whole[1], packed[1]}, {grad, same}}) {
    EXPECT_EQ(std::memcmp(a.f32(), b.f32(), static_cast<size_t>(a.type.bytes())), 0);
  }
}

// Scores of some hundreds: without subtracting the row's largest the exponentials would overflow.
TEST(AttentionTruth, LargeScores) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Check({2, 45, 3, 5}, 12, 2e-3, random);
  Check({1, 129, 1, 64}, 8, 2e-3, random);
  Check({2, 45, 3, 5, 3, 50}, 12, 2e-3, random);
}

}  // namespace
}  // namespace stringline::cpu
