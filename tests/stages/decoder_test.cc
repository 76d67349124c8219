// Llama and its relatives: cuts and splits change no bit, and the gradient is the loss's.
#include "stages/models/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "stages/init.h"
#include "stages/program_text.h"
#include "tests/stages/model_runs.h"

namespace stringline::cpu {
namespace {

DecoderShape Llama() {
  return {.layers = 4,
          .width = 24,
          .heads = 4,
          .context = 20,
          .vocabulary = 50,
          .microbatch = 3,
          .kv_heads = 2,
          .head_dim = 6,
          .hidden = 36};
}

// A family for each feature that Llama lacks.
DecoderShape Qwen2() {
  DecoderShape shape = Llama();
  shape.qkv_bias = shape.tied = true;
  return shape;
}

DecoderShape Qwen3() {
  DecoderShape shape = Llama();
  shape.qk_norm = true;
  shape.head_dim = 10;
  shape.kv_heads = 1;
  shape.rope_theta = 1e6;
  return shape;
}

TEST(Decoder, CutsAndSplitsChangeNoBit) {
  for (const DecoderShape& shape : {Llama(), Qwen2(), Qwen3()}) {
    CheckCuts(shape, {{4}, {2, 2}, {1, 3}, {1, 1, 1, 1}, {0, 4, 0}});
  }
}

TEST(Decoder, GradientIsThatOfTheLoss) {
  for (DecoderShape shape : {Llama(), Qwen2(), Qwen3()}) {
    shape.layers = 2;
    shape.context = 7;
    CheckGradient(shape);
  }
}

TEST(Decoder, CountsItsParams) {
  for (const DecoderShape& shape : {Llama(), Qwen2(), Qwen3()}) CheckCount(shape, {1, 1, 2});
}

TEST(Decoder, StartsAtTheUniformLoss) {
  for (const DecoderShape& shape : {Llama(), Qwen2(), Qwen3()}) CheckFirstLoss(shape);
}

// Two copies of one parameter: they begin equal, and the text of a program shows the tie.
TEST(Decoder, ATiedHeadBeginsAsTheEmbedding) {
  for (const std::vector<int>& cut : {std::vector<int>{4}, {2, 2}}) {
    const auto programs = BuildDecoderStages(Qwen2(), cut);
    ASSERT_TRUE(programs.ok()) << programs.status();
    const Param& first = programs->front().params.front();
    const Param& last = programs->back().params.back();
    EXPECT_EQ(first.name, "embedding.weight");
    EXPECT_EQ(last.tied_to, first.name);
    EXPECT_EQ(last.type, first.type);
    EXPECT_EQ(last.decay, first.decay);
    std::vector<float> a(first.type.elements()), b(a.size());
    Initialize(first, 3, a.data());
    Initialize(last, 3, b.data());
    EXPECT_EQ(a, b);
    const auto back = ReadStageProgram(PrintStageProgram(programs->back()));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, programs->back());
  }
}

// W holds the products' gradients and the embedding's, no others.
TEST(Decoder, WHoldsOnlyWeightGradients) {
  const std::set<Op> allowed = {Op::kLinearWeightGrad, Op::kEmbeddingGrad};
  for (const DecoderShape& shape : {Llama(), Qwen2(), Qwen3()}) {
    const auto programs = BuildDecoderStages(shape, {1, 2, 1});
    ASSERT_TRUE(programs.ok()) << programs.status();
    for (const StageProgram& program : *programs) {
      for (const Node& node : program.weight_gradient.nodes) EXPECT_TRUE(allowed.count(node.op));
    }
  }
}

TEST(Decoder, ShapesThatAreNoModelAreRefused) {
  DecoderShape shapes[] = {Llama(), Llama(), Llama(), Llama(), Llama()};
  shapes[0].kv_heads = 0;
  shapes[1].kv_heads = 3;
  shapes[2].head_dim = 5;
  shapes[3].rope_theta = std::nan("");
  shapes[4].hidden = shapes[4].context = 1 << 20;
  const char* const messages[] = {
      "a model with kv_heads 0: not in 1 .. 1048576",
      "4 heads of queries do not share 3 of keys and values",
      "heads of 5 channels cannot be rotated in pairs",
      "a model with theta nan, epsilon 1e-05 and first values of deviation 0.02",
      "a microbatch of 3 sequences of 1048576 tokens has an activation of more than 2^31 elements, "
      "2097152 a token"};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(BuildDecoderStages(shapes[i], {4}).status().message(), messages[i]);
  }
}

}  // namespace
}  // namespace stringline::cpu
