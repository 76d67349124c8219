// The model as a whole: cuts and splits change no bit, and its gradient is its loss's.
#include "stages/models/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/stages/model_runs.h"

namespace stringline::cpu {
namespace {

TEST(Gpt, CutsAndSplitsChangeNoBit) {
  CheckCuts(GptShape{4, 24, 3, 20, 50, 3},
            {{4}, {2, 2}, {1, 3}, {1, 1, 1, 1}, {0, 4, 0}, {0, 2, 2, 0}});
}

TEST(Gpt, CutsChangeNoBitAtTheSizesOfATraining) {
  CheckCuts(GptShape{3, 104, 4, 64, 256, 4}, {{3}, {1, 1, 1}, {0, 3}});
}

// A skip's value goes through the stages between, which hand it on.
TEST(Gpt, CutsOfSkipsChangeNoBit) {
  CheckCuts(GptShape{.layers = 5,
                     .width = 24,
                     .heads = 3,
                     .context = 20,
                     .vocabulary = 50,
                     .microbatch = 3,
                     .skips = true},
            {{5}, {2, 3}, {1, 4}, {1, 1, 1, 1, 1}, {0, 3, 2}, {2, 1, 2}});
}

// Each thread on its own, as in the executor: the results of threads are independent.
TEST(Gpt, ThreadsDoNotDisturbEachOther) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const GptShape shape{2, 48, 3, 40, 100, 4};
  const std::vector<Batch> batches = RandomBatches(shape, random);
  const absl::StatusOr<std::vector<StageProgram>> programs = BuildGptStages(shape, {1, 1});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const ModelResult expected = RunModel(*programs, batches, seed, Mode::kWhole);
  std::vector<ModelResult> results(4);
  std::vector<std::thread> threads;
  for (ModelResult& result : results) {
    threads.emplace_back([&] { result = RunModel(*programs, batches, seed, Mode::kSplit); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const ModelResult& result : results) ExpectSameBits(result, expected);
}

TEST(Gpt, GradientIsThatOfTheLoss) { CheckGradient(GptShape{2, 12, 3, 7, 19, 2}); }

TEST(Gpt, GradientOfSkipsIsThatOfTheLoss) {
  CheckGradient(GptShape{.layers = 4,
                         .width = 12,
                         .heads = 3,
                         .context = 7,
                         .vocabulary = 19,
                         .microbatch = 2,
                         .skips = true});
}

TEST(Gpt, CountsItsParams) {
  CheckCount(GptShape{.layers = 5,
                      .width = 24,
                      .heads = 3,
                      .context = 20,
                      .vocabulary = 50,
                      .microbatch = 2,
                      .skips = true},
             {1, 2, 2});
  CheckCount(GptShape{3, 24, 3, 20, 50, 2}, {1, 1, 1});
  CheckCount(GptShape{3, 24, 3, 20, 50, 2, true}, {1, 2});
}

TEST(Gpt, StartsAtTheUniformLoss) { CheckFirstLoss(GptShape{2, 32, 4, 16, 256, 4}); }

// A stage as deep as this takes almost no time: no algorithm is quadratic in the layers.
TEST(Gpt, AStageMayHaveAThousandLayers) {
  const GptShape shape{1200, 4, 2, 3, 5, 1};
  const absl::StatusOr<std::vector<StageProgram>> programs = BuildGptStages(shape, {1200});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const StageProgram& program = programs->front();
  ASSERT_EQ(program.params.size(), 1200u * 12 + 5);
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  StageState state = MakeState(program, seed);
  state.inputs[0] = RandomArray(program.inputs[0].type, random, shape.vocabulary);
  state.target = RandomArray(program.target, random, shape.vocabulary);
  Evaluate(program.forward, &state);
  Evaluate(program.backward, &state);
  EXPECT_NEAR(*state.loss.f32(), 3 * std::log(5.0f), 1);
  for (size_t p = 0; p < program.params.size(); ++p) {
    double squares = 0;
    for (int64_t i = 0; i < program.params[p].type.elements(); ++i) {
      squares += double{state.param_grads[p].f32()[i]} * state.param_grads[p].f32()[i];
    }
    ASSERT_TRUE(std::isfinite(squares)) << program.params[p].name;
    const bool matrix = program.params[p].type.shape.size() == 2;
    ASSERT_TRUE(!matrix || squares > 0) << program.params[p].name;
  }
}

TEST(Gpt, ShapesThatAreNoModelAreRefused) {
  const struct {
    GptShape shape;
    std::vector<int> cut;
    const char* message;
  } cases[] = {
      {{0, 8, 2, 4, 256, 1}, {0}, "a model with layers 0: not in 1 .. 1048576"},
      {{1, 8, 2, 4, 256, 0}, {1}, "a model with microbatch 0: not in 1 .. 1048576"},
      {{1, 8, 3, 4, 256, 1}, {1}, "a width of 8 does not divide into 3 heads"},
      {{1, 1 << 20, 1, 1 << 20, 256, 1},
       {1},
       "a microbatch of 1 sequences of 1048576 tokens at width 1048576 has an activation of more "
       "than 2^31 elements"},
      {{2, 8, 2, 4, 256, 1}, {1, 2}, "split [1, 2] has 3 layers, the model has 2"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(BuildGptStages(test.shape, test.cut).status().message(), test.message);
  }
}

}  // namespace
}  // namespace stringline::cpu
