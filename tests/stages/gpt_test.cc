// The model as a whole: cuts and splits change no bit, and its gradient is its loss's.
#include "stages/models/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "tests/stages/random_values.h"

namespace stringline::cpu {
namespace {

constexpr int kMicrobatches = 3;

struct Batch {
  Array tokens, target;
};

struct Result {
  std::vector<float> losses;
  std::map<std::string, std::vector<float>> grads;
};

enum class Mode { kWhole, kSplit, kDeferred };

std::vector<Batch> RandomBatches(const GptShape& shape, std::mt19937_64& random) {
  const Type tokens{DType::kI32, {shape.microbatch, shape.context}};
  std::vector<Batch> batches;
  for (int m = 0; m < kMicrobatches; ++m) {
    batches.push_back({RandomArray(tokens, random, shape.vocabulary),
                       RandomArray(tokens, random, shape.vocabulary)});
  }
  return batches;
}

// What one microbatch leaves behind in a stage between its actions.
struct Kept {
  std::vector<Array> saved, stash;
};

void RunW(const StageProgram& program, StageState* state, const Kept& kept) {
  state->saved = kept.saved;
  state->stash = kept.stash;
  Evaluate(program.weight_gradient, state);
}

// Every microbatch through the stages forward and back, weight gradients in microbatch order.
Result RunModel(const std::vector<StageProgram>& programs, const std::vector<Batch>& batches,
                uint64_t seed, Mode mode) {
  const int stages = static_cast<int>(programs.size());
  std::vector<StageState> states;
  for (const StageProgram& program : programs) states.push_back(MakeState(program, seed));
  Result result;
  std::vector<std::vector<Kept>> deferred(stages);
  for (const Batch& batch : batches) {
    for (int s = 0; s < stages; ++s) {
      states[s].input = s == 0 ? batch.tokens : states[s - 1].output;
      states[s].target = batch.target;
      Evaluate(programs[s].forward, &states[s]);
    }
    result.losses.push_back(*states.back().loss.f32());
    for (int s = stages - 1; s >= 0; --s) {
      if (s < stages - 1) states[s].out_grad = states[s + 1].in_grad;
      Evaluate(mode == Mode::kWhole ? programs[s].backward : programs[s].input_gradient,
               &states[s]);
      const Kept kept{states[s].saved, states[s].stash};
      if (mode == Mode::kSplit) RunW(programs[s], &states[s], kept);
      if (mode == Mode::kDeferred) deferred[s].push_back(kept);
    }
  }
  for (int s = 0; s < stages; ++s) {
    for (const Kept& kept : deferred[s]) RunW(programs[s], &states[s], kept);
    for (size_t p = 0; p < programs[s].params.size(); ++p) {
      const Array& grad = states[s].param_grads[p];
      result.grads[programs[s].params[p].name].assign(grad.f32(),
                                                      grad.f32() + grad.type.elements());
    }
  }
  return result;
}

void ExpectSameBits(const Result& a, const Result& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t m = 0; m < a.losses.size(); ++m) {
    EXPECT_EQ(std::memcmp(&a.losses[m], &b.losses[m], sizeof(float)), 0)
        << a.losses[m] << " and " << b.losses[m];
  }
  ASSERT_EQ(a.grads.size(), b.grads.size());
  for (const auto& [name, grad] : a.grads) {
    const auto other = b.grads.find(name);
    ASSERT_NE(other, b.grads.end()) << name;
    ASSERT_EQ(grad.size(), other->second.size()) << name;
    EXPECT_EQ(std::memcmp(grad.data(), other->second.data(), grad.size() * sizeof(float)), 0)
        << name;
  }
}

void CheckCuts(const GptShape& shape, const std::vector<std::vector<int>>& cuts) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<Batch> batches = RandomBatches(shape, random);
  const absl::StatusOr<std::vector<StageProgram>> whole = BuildGptStages(shape, {shape.layers});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const Result expected = RunModel(*whole, batches, seed, Mode::kWhole);
  for (const std::vector<int>& cut : cuts) {
    SCOPED_TRACE(testing::PrintToString(cut));
    const absl::StatusOr<std::vector<StageProgram>> programs = BuildGptStages(shape, cut);
    ASSERT_TRUE(programs.ok()) << programs.status();
    for (Mode mode : {Mode::kWhole, Mode::kSplit, Mode::kDeferred}) {
      SCOPED_TRACE(static_cast<int>(mode));
      ExpectSameBits(RunModel(*programs, batches, seed, mode), expected);
    }
  }
}

TEST(Gpt, CutsAndSplitsChangeNoBit) {
  CheckCuts({4, 24, 3, 20, 50, 3}, {{4}, {2, 2}, {1, 3}, {1, 1, 1, 1}, {0, 4, 0}, {0, 2, 2, 0}});
}

TEST(Gpt, CutsChangeNoBitAtTheSizesOfATraining) {
  CheckCuts({3, 104, 4, 64, 256, 4}, {{3}, {1, 1, 1}, {0, 3}});
}

// Each thread on its own, as in the executor: what one computes does not depend on the others.
TEST(Gpt, ThreadsDoNotDisturbEachOther) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const GptShape shape{2, 48, 3, 40, 100, 4};
  const std::vector<Batch> batches = RandomBatches(shape, random);
  const absl::StatusOr<std::vector<StageProgram>> programs = BuildGptStages(shape, {1, 1});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const Result expected = RunModel(*programs, batches, seed, Mode::kWhole);
  std::vector<Result> results(4);
  std::vector<std::thread> threads;
  for (Result& result : results) {
    threads.emplace_back([&] { result = RunModel(*programs, batches, seed, Mode::kSplit); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Result& result : results) ExpectSameBits(result, expected);
}

// Along a random direction for each parameter of the whole model.
TEST(Gpt, GradientIsThatOfTheLoss) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const GptShape shape{2, 12, 3, 7, 19, 2};
  const StageProgram program = (*BuildGptStages(shape, {2}))[0];
  StageState state = MakeState(program, seed);
  for (Array& param : state.params) {  // far from the first values, where many gradients are tiny
    const Array noise = RandomArray(param.type, random);
    for (int64_t i = 0; i < param.type.elements(); ++i) param.f32()[i] += 0.3f * noise.f32()[i];
  }
  state.input = RandomArray(program.input, random, shape.vocabulary);
  state.target = RandomArray(program.target, random, shape.vocabulary);
  Evaluate(program.forward, &state);
  Evaluate(program.backward, &state);
  for (size_t p = 0; p < program.params.size(); ++p) {
    const Array kept = state.params[p];
    const Array direction = RandomArray(kept.type, random);
    double expected = 0, squares = 0;
    for (int64_t i = 0; i < kept.type.elements(); ++i) {
      expected += double{direction.f32()[i]} * state.param_grads[p].f32()[i];
      squares += double{direction.f32()[i]} * direction.f32()[i];
    }
    const double step = 0.02 / std::sqrt(squares);
    double loss[2];
    for (int side = 0; side < 2; ++side) {
      state.params[p] = MakeArray(kept.type);
      for (int64_t i = 0; i < kept.type.elements(); ++i) {
        state.params[p].f32()[i] =
            kept.f32()[i] + static_cast<float>((2 * side - 1) * step) * direction.f32()[i];
      }
      Evaluate(program.forward, &state);
      loss[side] = *state.loss.f32();
    }
    state.params[p] = kept;
    EXPECT_NEAR(expected, (loss[1] - loss[0]) / (2 * step),
                0.01 * std::abs(expected) + 0.01 * std::sqrt(squares))
        << program.params[p].name;
  }
}

TEST(Gpt, CountsItsParams) {
  const GptShape shape{3, 24, 3, 20, 50, 2};
  int64_t count = 0;
  const absl::StatusOr<std::vector<StageProgram>> programs = BuildGptStages(shape, {1, 1, 1});
  ASSERT_TRUE(programs.ok()) << programs.status();
  for (const StageProgram& program : *programs) {
    for (const Param& param : program.params) count += param.type.elements();
  }
  EXPECT_EQ(count, CountParams(shape));
}

// Almost uniform at the first values: log V nats a token.
TEST(Gpt, StartsAtTheUniformLoss) {
  const GptShape shape{2, 32, 4, 16, 256, 4};
  const StageProgram program = (*BuildGptStages(shape, {2}))[0];
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  StageState state = MakeState(program, seed);
  state.input = RandomArray(program.input, random, 256);
  state.target = RandomArray(program.target, random, 256);
  Evaluate(program.forward, &state);
  EXPECT_NEAR(*state.loss.f32() / static_cast<float>(shape.tokens()), std::log(256.0f), 0.1);
}

// A stage as deep as this takes no time to speak of: nothing in the way is quadratic in the layers.
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
  state.input = RandomArray(program.input, random, shape.vocabulary);
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
