// A model of layers of several kinds, as in a program: no cut changes a bit of its results.
#include "stages/models/raised.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/stages/model_runs.h"
#include "tests/stages/raised_builder.h"

namespace stringline::cpu {
namespace {

constexpr int64_t kWidth = 6, kTokens = 7, kMicrobatch = 2, kContext = 5;

// An MLP with RMS norm and GELU, an MLP without a norm, and attention with a layer norm; the head
// is the table.
RaisedShape ThreeKinds() {
  RaisedBuilder made;
  const Type tokens = {DType::kI32, {kMicrobatch, kContext}};
  const ValueId ids = made.builder().Input(Role::kInput, 0, tokens, "tokens");
  ValueId x = made.Add("embed", Op::kEmbedding, {ids, made.Param("embedding", {kTokens, kWidth})});
  x = made.Add("embed", Op::kPositionAdd, {x, made.Param("positions", {kContext, kWidth})}, {0});

  ValueId y = made.Add("a", Op::kRmsNorm, {x, made.Param("a.norm", {kWidth})}, {1e-5});
  y = made.Add("a", Op::kLinear, {y, made.Param("a.up", {9, kWidth})});
  y = made.Add("a", Op::kGelu, {y});
  x = made.Add("a", Op::kLinearAdd, {y, made.Param("a.down", {kWidth, 9}), x});

  y = made.Add("b", Op::kLinear, {x, made.Param("b.up", {8, kWidth})});
  y = made.Add("b", Op::kSwiglu, {y});
  y = made.Add("b", Op::kLinear, {y, made.Param("b.down", {kWidth, 4})});
  y = made.Add("b", Op::kScale, {y}, {0.5});
  x = made.Add("b", Op::kAdd, {x, y});

  const ValueId gamma = made.Param("c.norm.weight", {kWidth}),
                beta = made.Param("c.norm.bias", {kWidth});
  y = made.Add("c", Op::kLayerNorm, {x, gamma, beta}, {1e-5});
  y = made.Add("c", Op::kLinear, {y, made.Param("c.qkv", {4 * 2, kWidth})});
  y = made.Add("c", Op::kAttention, {y}, {2, 1});
  x = made.Add("c", Op::kLinearAdd, {y, made.Param("c.out", {kWidth, 4}), x});

  x = made.Add("head", Op::kLinear, {x, made.Param("head", {kTokens, kWidth}, "embedding")});
  const ValueId target = made.builder().Input(Role::kTarget, 0, tokens, "target");
  const ValueId loss = made.Add("", Op::kCrossEntropy, {x, target});
  made.builder().Output(Role::kLoss, 0, loss);
  return std::move(made).Finish({2, 6, 11, 15});
}

TEST(RaisedTest, NoCutChangesABit) {
  CheckCuts(ThreeKinds(), {{3}, {1, 2}, {0, 3}, {3, 0}, {1, 1, 1}, {0, 1, 1, 1, 0}});
}

TEST(RaisedTest, NoCutChangesABitInBf16) {
  AnyShape shape = ThreeKinds();
  shape.dtype = DType::kBF16;
  CheckCuts(shape, {{3}, {1, 2}, {0, 1, 1, 1, 0}});
  const auto stages = BuildModelStages(shape, {3});
  ASSERT_TRUE(stages.ok()) << stages.status();
  for (const Param& param : stages->front().params) {
    const bool of_norm = param.name.find("norm") != std::string::npos;
    EXPECT_EQ(param.type.dtype, of_norm ? DType::kF32 : DType::kBF16) << param.name;
  }
}

TEST(RaisedTest, GradientsAreDifferences) { CheckGradient(ThreeKinds()); }

TEST(RaisedTest, CountsItsParameters) {
  const RaisedShape shape = ThreeKinds();
  CheckCount(shape, {1, 1, 1});
  EXPECT_EQ(PartOfEachParam(*shape.model), (std::vector<int>{0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4}));
}

TEST(RaisedTest, TakesOtherMicrobatchesAndShorterContexts) {
  RaisedShape shape = ThreeKinds();
  shape.microbatch = 3;
  for (const int context : {4, 1}) {
    shape.context = context;
    CheckCuts(shape, {{2, 1}});
    CheckCount(shape, {1, 2});
  }
  shape.context = 6;
  EXPECT_EQ(CheckShape(shape).message(), "a context of 6 tokens, of a program with 5");
}

TEST(RaisedTest, WorkIsThatOfItsProducts) {
  const std::vector<double> work = WorkOfEach(ThreeKinds());
  ASSERT_EQ(work.size(), 5u);
  constexpr double kRows = kMicrobatch * kContext;
  // Two products of 9 x 6, a norm, and a GELU of 9 channels.
  EXPECT_EQ(work[1], kRows * (2 * 2 * 54 + 6 + 9));
  EXPECT_EQ(work[4], kRows * (2 * 42) + kRows);
}

TEST(RaisedTest, AStageBeginsWhereOneActivationGoes) {
  const RaisedShape shape = ThreeKinds();
  const Graph& graph = shape.model->graph;
  std::vector<int> places;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    if (CrossingsAt(graph, n).size() == 1) places.push_back(n);
  }
  // Not within a residual, and not before the first node, which reads tokens.
  EXPECT_EQ(places, (std::vector<int>{1, 2, 6, 11, 15, 16}));
}

}  // namespace
}  // namespace stringline::cpu
