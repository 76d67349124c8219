// NaN and infinity in the inputs of kernels reach every output that depends on the input, and no
// other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "stages/functions.h"
#include "stages/ops.h"
#include "stages/text.h"
#include "tests/stages/experts_ops.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

struct NanCase {
  Op op;
  std::vector<Type> inputs;
  std::vector<double> attributes;
  int32_t below = 1;  // integers are drawn from 0 .. below-1
};

// Attention over several blocks of queries, with and without a past.
std::vector<NanCase> AttentionCases() {
  return {
      {Op::kAttention, {F32({2, 5, 12})}, {2, 2}},
      {Op::kAttention, {F32({1, 37, 9})}, {1, 1}},
      {Op::kAttention, {F32({1, 70, 6})}, {2, 2}},
      {Op::kAttention, {F32({1, 35, 12})}, {4, 1}},
      {Op::kAttentionGrad,
       {F32({2, 5, 4}), F32({2, 5, 12}), F32({2, 5, 4}), F32({2, 2, 5})},
       {2, 2}},
      {Op::kAttentionGrad,
       {F32({1, 35, 4}), F32({1, 35, 8}), F32({1, 35, 4}), F32({1, 4, 35})},
       {4, 2}},
      {Op::kAttentionGrad,
       {F32({1, 37, 3}), F32({1, 37, 9}), F32({1, 37, 3}), F32({1, 1, 37})},
       {1, 1}},
      {Op::kAttentionGrad,
       {F32({1, 70, 2}), F32({1, 70, 6}), F32({1, 70, 2}), F32({1, 2, 70})},
       {2, 2}},
      {Op::kAttentionPast, {F32({2, 5, 12}), F32({2, 1, 8})}, {2, 2}},
      {Op::kAttentionPast, {F32({1, 37, 9}), F32({1, 33, 6})}, {1, 1}},
      {Op::kAttentionPast, {F32({1, 5, 12}), F32({1, 40, 4})}, {4, 1}},
      {Op::kAttentionPastGrad,
       {F32({2, 5, 4}), F32({2, 5, 12}), F32({2, 3, 8}), F32({2, 5, 4}), F32({2, 2, 5})},
       {2, 2}},
      {Op::kAttentionPastGrad,
       {F32({1, 37, 3}), F32({1, 37, 9}), F32({1, 33, 6}), F32({1, 37, 3}), F32({1, 1, 37})},
       {1, 1}},
      {Op::kAttentionPastGrad,
       {F32({1, 5, 4}), F32({1, 5, 8}), F32({1, 34, 4}), F32({1, 5, 4}), F32({1, 4, 5})},
       {4, 2}},
      {Op::kCrossAttention, {F32({2, 5, 4}), F32({2, 3, 8})}, {2, 2}},
      {Op::kCrossAttention, {F32({1, 37, 8}), F32({1, 33, 4})}, {4, 1}},
      {Op::kCrossAttentionGrad,
       {F32({2, 5, 4}), F32({2, 5, 4}), F32({2, 3, 8}), F32({2, 5, 4}), F32({2, 2, 5})},
       {2, 2}},
      {Op::kCrossAttentionGrad,
       {F32({1, 37, 8}), F32({1, 37, 8}), F32({1, 40, 4}), F32({1, 37, 8}), F32({1, 4, 37})},
       {4, 1}},
      {Op::kPackedAttention, {F32({2, 7, 12}), I32({2, 7})}, {2, 2}},
      {Op::kPackedAttention, {F32({1, 40, 8}), I32({1, 40})}, {2, 1}},
      {Op::kPackedAttentionGrad,
       {F32({2, 7, 4}), F32({2, 7, 8}), I32({2, 7}), F32({2, 7, 4}), F32({2, 4, 7})},
       {4, 2}},
      {Op::kPackedAttentionGrad,
       {F32({1, 40, 3}), F32({1, 40, 9}), I32({1, 40}), F32({1, 40, 3}), F32({1, 1, 40})},
       {1, 1}},
  };
}

// Sizes below, at and above a vector's.
std::vector<NanCase> OtherCases() {
  return {
      {Op::kLinear, {F32({5, 19}), F32({7, 19})}, {}},
      {Op::kLinearInputGrad, {F32({5, 7}), F32({7, 19})}, {}},
      {Op::kLinearWeightGrad, {F32({5, 7}), F32({5, 19})}, {}},
      {Op::kLinearBias, {F32({3, 9}), F32({21, 9}), F32({21})}, {}},
      {Op::kLinearResidual, {F32({3, 9}), F32({21, 9}), F32({21}), F32({3, 21})}, {}},
      {Op::kColumnSum, {F32({3, 85})}, {}},
      {Op::kAdd, {F32({3, 7}), F32({3, 7})}, {}},
      {Op::kMul, {F32({3, 7}), F32({3, 7})}, {}},
      {Op::kScale, {F32({3, 7})}, {-1.5}},
      {Op::kCast, {F32({3, 7})}, {32}},
      {Op::kMap, {F32({3, 7})}, {static_cast<double>(MapFunction::relu), 0, 0}},
      {Op::kMap, {F32({3, 7})}, {static_cast<double>(MapFunction::clamp), -1, 1}},
      {Op::kMapGrad, {F32({3, 7}), F32({3, 7})}, {static_cast<double>(MapFunction::tanh), 0, 0}},
      {Op::kZip, {F32({3, 7}), F32({3, 7})}, {static_cast<double>(ZipFunction::maximum), 0}},
      {Op::kZip, {F32({3, 7}), F32({3, 7})}, {static_cast<double>(ZipFunction::minimum), 0}},
      {Op::kZip, {F32({3, 7}), F32({3, 7})}, {static_cast<double>(ZipFunction::divide), 0}},
      {Op::kZipGrad,
       {F32({3, 7}), F32({3, 7}), F32({3, 7})},
       {static_cast<double>(ZipFunction::divide), 0}},
      {Op::kReshape, {F32({3, 7})}, {7, 3}},
      {Op::kPermute, {F32({3, 7, 2})}, {2, 0, 1}},
      {Op::kExpand, {F32({3, 1})}, {2, 3, 4}},
      {Op::kSumTo, {F32({2, 3, 4})}, {3, 1}},
      {Op::kTake, {F32({3, 7})}, {1, 1, 2, 3}},
      {Op::kPut, {F32({3, 3})}, {1, 1, 2, 7}},
      {Op::kJoin, {F32({3, 2}), F32({3, 5})}, {1}},
      {Op::kMatMul, {F32({2, 3, 5}), F32({2, 5, 4})}, {0, 0}},
      {Op::kSoftmax, {F32({3, 7})}, {0}},
      {Op::kSoftmax, {F32({3, 7})}, {1}},
      {Op::kSoftmaxGrad, {F32({3, 7}), F32({3, 7})}, {0}},
      {Op::kFloatOfBits, {I32({3})}, {}},
      {Op::kDropout, {F32({3, 50}), I32({4})}, {0.5, 2}},
      {Op::kBatchNorm, {F32({3, 2, 5}), F32({2}), F32({2}), F32({2}), F32({2})}, {1e-5}},
      {Op::kBatchNormGrad, {F32({3, 2, 5}), F32({3, 2, 5}), F32({2}), F32({2}), F32({2})}, {}},
      // Without padding, whose product with a number is 0, and with NaN is NaN.
      {Op::kConvolution, {F32({2, 4, 7}), F32({6, 2, 3})}, {2, 7, 3, 2, 0, 0, 1}},
      {Op::kConvolution, {F32({2, 3, 7}), F32({4, 3, 1})}, {1, 7, 1, 1, 0, 0, 1}},
      {Op::kConvolutionInputGrad, {F32({2, 6, 4}), F32({6, 2, 3})}, {2, 7, 3, 2, 1, 1, 1}},
      {Op::kConvolutionWeightGrad, {F32({2, 6, 3}), F32({2, 4, 7})}, {2, 7, 3, 2, 0, 0, 1}},
      {Op::kMaxPool, {F32({3, 7})}, {7, 3, 2, 1, 1, 1}},
      {Op::kMaxPoolGrad, {F32({3, 4}), I32({3, 4})}, {7, 3, 2, 1, 1, 1}, 7},
      {Op::kGather, {F32({3, 4}), I32({3, 6})}, {1}, 4},
      {Op::kScatter, {F32({3, 4}), I32({3, 4})}, {1, 6, 1}, 6},
      {Op::kPaddedEmbedding, {I32({3}), F32({4, 5})}, {3}},
      {Op::kPaddedEmbeddingGrad, {I32({3}), F32({3, 5})}, {4, 3}},
      {Op::kLayerNorm, {F32({3, 5}), F32({5}), F32({5})}, {1e-5}},
      {Op::kLayerNorm, {F32({2, 37}), F32({37}), F32({37})}, {1e-5}},
      {Op::kLayerNormGrad, {F32({3, 5}), F32({3, 5}), F32({5}), F32({3}), F32({3})}, {}},
      {Op::kLayerNormGrad, {F32({2, 37}), F32({2, 37}), F32({37}), F32({2}), F32({2})}, {}},
      {Op::kGelu, {F32({37})}, {}},
      {Op::kGeluGrad, {F32({37}), F32({37})}, {}},
      {Op::kEmbedding, {I32({4}), F32({6, 5})}, {}, 6},
      {Op::kEmbeddingGrad, {I32({4}), F32({4, 5})}, {6}, 6},
      {Op::kPositionAdd, {F32({3, 4, 5}), F32({4, 5})}, {0}},
      {Op::kPositionAdd, {F32({3, 4, 5}), F32({9, 5})}, {3}},
      {Op::kPositionGrad, {F32({3, 4, 5})}, {4, 0}},
      {Op::kPositionGrad, {F32({3, 4, 5})}, {9, 3}},
      {Op::kCrossEntropy, {F32({4, 7}), I32({4})}, {}, 7},
      {Op::kCrossEntropy, {F32({3, 39}), I32({3})}, {}, 39},
      {Op::kCrossEntropyGrad, {F32({}), F32({4, 7}), I32({4}), F32({4})}, {}, 7},
      {Op::kCrossEntropyGrad, {F32({}), F32({3, 39}), I32({3}), F32({3})}, {}, 39},
      {Op::kLinearAdd, {F32({3, 9}), F32({21, 9}), F32({3, 21})}, {}},
      {Op::kRmsNorm, {F32({3, 5}), F32({5})}, {1e-5}},
      {Op::kRmsNorm, {F32({2, 37}), F32({37})}, {1e-5}},
      {Op::kRmsNormGrad, {F32({2, 37}), F32({2, 37}), F32({37}), F32({2})}, {}},
      {Op::kHeadNorm, {F32({1, 2, 25}), F32({5}), F32({5})}, {3, 1, 1e-6}},
      {Op::kHeadNormGrad,
       {F32({1, 2, 36}), F32({1, 2, 36}), F32({6}), F32({6}), F32({1, 2, 4})},
       {2, 2}},
      {Op::kRotary, {F32({2, 3, 24})}, {2, 1, 1e4, 1, 0}},
      {Op::kRotary, {F32({1, 2, 108})}, {1, 1, 100, -1, 0}},
      {Op::kRotary, {F32({2, 3, 24})}, {2, 1, 1e4, 1, 7}},
      {Op::kPackedRotary, {F32({2, 5, 24}), I32({2, 5})}, {2, 1, 1e4, 1}},
      {Op::kSwiglu, {F32({3, 74})}, {}},
      {Op::kSwigluGrad, {F32({3, 37}), F32({3, 74})}, {}},
      {Op::kPackKeys, {F32({2, 3, 24})}, {2, 1}},
      {Op::kPackKeysGrad, {F32({2, 3, 12})}, {2, 1}},
      {Op::kAppendPositions, {F32({2, 3, 5}), F32({2, 4, 5})}, {}},
      {Op::kTakePositions, {F32({2, 7, 5})}, {2, 4}},
  };
}

std::vector<NanCase> NanCases() {
  std::vector<NanCase> cases = AttentionCases();
  for (NanCase& other : OtherCases()) cases.push_back(std::move(other));
  return cases;
}

class Probe {
 public:
  Probe(const NanCase& test, std::mt19937_64& random) : test_(test) {
    for (const Type& type : test.inputs) {
      inputs_.push_back(IsPacked(test.op) && type.dtype == DType::kI32
                            ? DocumentPositions(type.shape[0], type.shape[1], 12, random)
                            : RandomArray(type, random, test.below));
    }
    before_ = RunKernel(test.op, inputs_, test.attributes);
  }

  // With NaN in element i of input k, outputs that depend on the element become NaN, all others
  // stay.
  void Check(size_t k, int64_t i) {
    float& element = inputs_[k].f32()[i];
    const float kept = element;
    std::vector<std::vector<bool>> reached;
    for (const Array& output : before_) reached.emplace_back(output.type.elements(), false);
    // Large changes too: the effect of a small change may drown in rounding.
    for (const float change : {0.75f, -2.25f, 40.0f, -40.0f, 3e3f, -3e3f, 1e6f}) {
      element = kept + change;
      const std::vector<Array> seen = RunKernel(test_.op, inputs_, test_.attributes);
      ForElements(
          [&](size_t o, int64_t e) { reached[o][e] = reached[o][e] || Differs(seen, o, e); });
    }
    // The first query of a sequence, or of a document, sees one key, with a weight of 1 whatever
    // its score: a number in the score's inputs changes only the log-sum-exp, but NaN also changes
    // the result.
    if (test_.op == Op::kAttention || test_.op == Op::kPackedAttention) ReachWithLse(&reached);
    for (const float strange :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      element = strange;
      const std::vector<Array> seen = RunKernel(test_.op, inputs_, test_.attributes);
      ForElements([&](size_t o, int64_t e) {
        const float value = seen[o].f32()[e];
        if (!reached[o][e]) {
          EXPECT_FALSE(Differs(seen, o, e)) << Where(k, i, o, e) << ", became " << value;
        } else if (std::isnan(strange)) {
          EXPECT_TRUE(std::isnan(value)) << Where(k, i, o, e) << ", became " << value;
        }
      });
    }
    element = kept;
  }

  const std::vector<Array>& inputs() const { return inputs_; }

 private:
  template <typename Body>
  void ForElements(Body body) const {
    for (size_t o = 0; o < before_.size(); ++o) {
      if (before_[o].type.dtype != DType::kF32) continue;
      for (int64_t e = 0; e < before_[o].type.elements(); ++e) body(o, e);
    }
  }
  // y[b,t,h,:] is reached wherever lse[b,h,t] is.
  void ReachWithLse(std::vector<std::vector<bool>>* reached) const {
    const std::vector<int64_t>& shape = before_[1].type.shape;
    const int64_t size = before_[0].type.shape[2] / shape[1];
    ForElements([&](size_t o, int64_t e) {
      const int64_t h = e / size % shape[1], row = e / size / shape[1];
      const int64_t b = row / shape[2], t = row % shape[2];
      if (o == 0 && (*reached)[1][(b * shape[1] + h) * shape[2] + t]) (*reached)[0][e] = true;
    });
  }
  bool Differs(const std::vector<Array>& seen, size_t o, int64_t e) const {
    return std::memcmp(&seen[o].f32()[e], &before_[o].f32()[e], sizeof(float)) != 0;
  }
  std::string Where(size_t k, int64_t i, size_t o, int64_t e) const {
    return absl::StrCat("input ", k, " element ", i, ", output ", o, " element ", e, ", was ",
                        before_[o].f32()[e]);
  }

  const NanCase& test_;
  std::vector<Array> inputs_, before_;
};

TEST(KernelNan, SpreadsExactlyAsANumberWould) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const NanCase& test : NanCases()) {
    SCOPED_TRACE(absl::StrCat(RowOf(test.op).name, " ", PrintType(test.inputs[0])));
    Probe probe(test, random);
    for (size_t k = 0; k < test.inputs.size(); ++k) {
      if (test.inputs[k].dtype != DType::kF32) continue;
      for (int64_t i = 0; i < probe.inputs()[k].type.elements(); ++i) probe.Check(k, i);
    }
    if (HasFailure()) return;
  }
}

TEST(KernelNan, CasesNameEveryOpWithAFloatInput) {
  std::set<Op> tried;
  for (const NanCase& test : NanCases()) tried.insert(test.op);
  for (const OpRow& row : AllOps()) {
    // Whole numbers are never NaN: kernel_truth_test has NaN among the numbers that top_k orders.
    const bool whole = row.op == Op::kWhole || row.op == Op::kFloat || row.op == Op::kTopK;
    if (IsOfExperts(row.op) || whole) continue;
    EXPECT_EQ(tried.count(row.op), row.inputs > 0 ? 1u : 0u) << row.name << " is in no case";
  }
}

}  // namespace
}  // namespace stringline::cpu
