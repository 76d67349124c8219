// The encoder-decoder as a whole: cuts change no bit, and its gradient is its loss's.
#include "stages/models/encoder_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "stages/program_text.h"
#include "tests/stages/model_runs.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

EncoderDecoderShape Small() {
  return {.layers = 5,
          .encoder_layers = 2,
          .width = 24,
          .heads = 3,
          .context = 20,
          .source = 8,
          .vocabulary = 50,
          .microbatch = 3};
}

TEST(EncoderDecoder, CutsAndSplitsChangeNoBit) {
  CheckCuts(Small(), {{5}, {2, 3}, {1, 4}, {3, 2}, {1, 1, 1, 1, 1}, {0, 5, 0}, {1, 2, 2}});
}

TEST(EncoderDecoder, GradientIsThatOfTheLoss) {
  CheckGradient(EncoderDecoderShape{.layers = 3,
                                    .encoder_layers = 1,
                                    .width = 12,
                                    .heads = 3,
                                    .context = 11,
                                    .source = 4,
                                    .vocabulary = 19,
                                    .microbatch = 2});
}

TEST(EncoderDecoder, CountsItsParams) { CheckCount(Small(), {1, 2, 2}); }

TEST(EncoderDecoder, StartsAtTheUniformLoss) {
  EncoderDecoderShape shape = Small();
  shape.width = 48;
  CheckFirstLoss(shape);
}

// Tokens enter where the decoder begins, wherever that is, and the text form says which.
TEST(EncoderDecoder, TheDecodersFirstStageReadsTokens) {
  for (const std::vector<int>& cut : {std::vector<int>{2, 1, 2}, {1, 2, 2}, {5}}) {
    const auto programs = BuildEncoderDecoderStages(Small(), cut);
    ASSERT_TRUE(programs.ok()) << programs.status();
    std::vector<std::pair<int64_t, int64_t>> read;
    for (const StageProgram& program : *programs) {
      for (const Crossing& input : program.inputs) {
        if (input.is_tokens()) read.emplace_back(input.first, input.type.shape[1]);
      }
      const auto again = ReadStageProgram(PrintStageProgram(program));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(*again == program) << PrintStageProgram(program);
    }
    EXPECT_EQ(read, (std::vector<std::pair<int64_t, int64_t>>{{0, 8}, {8, 12}}));
    EXPECT_EQ(programs->back().first_target, 8);
  }
}

TEST(EncoderDecoder, ShapesThatAreNoModelAreRefused) {
  const auto says = [](void (*change)(EncoderDecoderShape*)) {
    EncoderDecoderShape shape = Small();
    change(&shape);
    return std::string(CheckShape(shape).message());
  };
  EXPECT_EQ(says([](EncoderDecoderShape* shape) { shape->encoder_layers = 5; }),
            "a model with 5 of 5 layers in its encoder: each half needs one");
  EXPECT_EQ(says([](EncoderDecoderShape* shape) { shape->source = 20; }),
            "an encoder that reads 20 of a sequence's 20 tokens: each half needs one");
  EXPECT_EQ(says([](EncoderDecoderShape* shape) { shape->heads = 5; }),
            "a width of 24 does not divide into 5 heads");
}

// Each row of queries sees all rows of keys: written down plainly, in double.
TEST(CrossAttention, IsItsFormula) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const auto& [rows, seen] : {std::pair(1, 1), {5, 3}, {33, 70}, {70, 33}, {31, 32}}) {
    constexpr int kHeads = 4, kKeys = 2, kSize = 6;
    const Array q = RandomArray(F32({2, rows, kHeads * kSize}), random);
    const Array kv = RandomArray(F32({2, seen, 2 * kKeys * kSize}), random);
    const std::vector<Array> out = RunKernel(Op::kCrossAttention, {q, kv}, {kHeads, kKeys});
    for (int b = 0; b < 2; ++b) {
      for (int h = 0; h < kHeads; ++h) {
        for (int i = 0; i < rows; ++i) {
          const float* const query = q.f32() + (b * rows + i) * kHeads * kSize + h * kSize;
          std::vector<double> weights;
          double sum = 0, mixed[kSize] = {};
          for (int j = 0; j < seen; ++j) {
            const float* const key = kv.f32() + (b * seen + j) * 2 * kKeys * kSize + h / 2 * kSize;
            double score = 0;
            for (int d = 0; d < kSize; ++d) score += double{query[d]} * key[d];
            const double weight = std::exp(score / std::sqrt(double{kSize}));
            sum += weight;
            for (int d = 0; d < kSize; ++d) mixed[d] += weight * key[kKeys * kSize + d];
          }
          for (int d = 0; d < kSize; ++d) {
            const float y = out[0].f32()[(b * rows + i) * kHeads * kSize + h * kSize + d];
            ASSERT_NEAR(y, mixed[d] / sum, 2e-6) << rows << " rows, " << seen << " seen";
          }
          ASSERT_NEAR(out[1].f32()[(b * kHeads + h) * rows + i], std::log(sum), 2e-6);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stringline::cpu
