#include "tests/stages/model_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stringline::cpu {
namespace {

constexpr int kMicrobatches = 3;

// The values of one microbatch kept in a stage between its actions.
struct Kept {
  std::vector<Array> saved, stash;
};

// Some tokens of each sequence, those from `first` on.
Array TokensFrom(const Array& all, const Type& piece, int64_t first) {
  Array array = MakeArray(piece);
  const int64_t sequence = all.type.shape[1], count = piece.shape[1];
  for (int64_t row = 0; row < piece.shape[0]; ++row) {
    std::copy_n(all.i32() + row * sequence + first, count, array.i32() + row * count);
  }
  return array;
}

// The inputs of a stage behind another one, whose outputs come in the order of its edges' values.
std::vector<Array> InputsOf(const StageProgram& program, const Array& tokens,
                            const std::vector<Array>& before) {
  std::vector<Array> inputs;
  size_t next = 0;
  for (const Crossing& input : program.inputs) {
    inputs.push_back(input.is_tokens() ? TokensFrom(tokens, input.type, input.first)
                                       : before[next++]);
  }
  return inputs;
}

std::vector<Array> GradientsBehind(const StageProgram& behind, const std::vector<Array>& in_grads) {
  std::vector<Array> grads;
  for (size_t i = 0; i < behind.inputs.size(); ++i) {
    if (!behind.inputs[i].is_tokens()) grads.push_back(in_grads[i]);
  }
  return grads;
}

// Random tokens for all inputs of a whole model, and for its target.
void SetData(const StageProgram& program, std::mt19937_64& random, int vocabulary,
             StageState* state) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    state->inputs[i] = RandomArray(program.inputs[i].type, random, vocabulary);
  }
  state->target = RandomArray(program.target, random, vocabulary);
  if (program.mask_key) state->mask_key = MakeMaskKey({random(), random()});
}

void RunW(const StageProgram& program, StageState* state, const Kept& kept) {
  state->saved = kept.saved;
  state->stash = kept.stash;
  Evaluate(program.weight_gradient, state);
}

}  // namespace

std::vector<Batch> RandomBatches(const AnyShape& shape, std::mt19937_64& random) {
  const Type tokens{DType::kI32, {shape.microbatch(), shape.context()}};
  std::vector<Batch> batches;
  for (int m = 0; m < kMicrobatches; ++m) {
    batches.push_back({RandomArray(tokens, random, shape.vocabulary()),
                       RandomArray(tokens, random, shape.vocabulary())});
  }
  return batches;
}

ModelResult RunModel(const std::vector<StageProgram>& programs, const std::vector<Batch>& batches,
                     uint64_t seed, Mode mode) {
  const int stages = static_cast<int>(programs.size());
  std::vector<StageState> states;
  for (const StageProgram& program : programs) states.push_back(MakeState(program, seed));
  ModelResult result;
  std::vector<std::vector<Kept>> deferred(stages);
  MaskKey key = {seed, 0};
  for (const Batch& batch : batches) {
    for (int s = 0; s < stages; ++s) {
      if (programs[s].mask_key) states[s].mask_key = MakeMaskKey(key);
      states[s].inputs = InputsOf(programs[s], batch.tokens,
                                  s == 0 ? std::vector<Array>() : states[s - 1].outputs);
      if (programs[s].last) {
        states[s].target = TokensFrom(batch.target, programs[s].target, programs[s].first_target);
      }
      Evaluate(programs[s].forward, &states[s]);
    }
    key.first_sample += static_cast<uint64_t>(batch.tokens.type.shape[0]);
    result.losses.push_back(*states.back().loss.f32());
    for (const StageState& state : states) {
      for (const Array& loss : state.aux_losses) result.losses.push_back(*loss.f32());
    }
    for (int s = stages - 1; s >= 0; --s) {
      if (s < stages - 1) {
        states[s].out_grads = GradientsBehind(programs[s + 1], states[s + 1].in_grads);
      }
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

void ExpectSameBits(const ModelResult& a, const ModelResult& b) {
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

void CheckCuts(const AnyShape& shape, const std::vector<std::vector<int>>& cuts) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<Batch> batches = RandomBatches(shape, random);
  const absl::StatusOr<std::vector<StageProgram>> whole = BuildModelStages(shape, {shape.layers()});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const ModelResult expected = RunModel(*whole, batches, seed, Mode::kWhole);
  for (const std::vector<int>& cut : cuts) {
    SCOPED_TRACE(testing::PrintToString(cut));
    const absl::StatusOr<std::vector<StageProgram>> programs = BuildModelStages(shape, cut);
    ASSERT_TRUE(programs.ok()) << programs.status();
    for (Mode mode : {Mode::kWhole, Mode::kSplit, Mode::kDeferred}) {
      SCOPED_TRACE(static_cast<int>(mode));
      ExpectSameBits(RunModel(*programs, batches, seed, mode), expected);
    }
  }
}

void CheckGradient(const AnyShape& shape) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const StageProgram program = (*BuildModelStages(shape, {shape.layers()}))[0];
  StageState state = MakeState(program, seed);
  for (Array& param : state.params) {  // far from the initial values, for which many gradients are
                                       // tiny
    const Array noise = RandomArray(param.type, random);
    for (int64_t i = 0; i < param.type.elements(); ++i) param.f32()[i] += 0.3f * noise.f32()[i];
  }
  SetData(program, random, shape.vocabulary(), &state);
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

void CheckFirstLoss(const AnyShape& shape) {
  const StageProgram program = (*BuildModelStages(shape, {shape.layers()}))[0];
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  StageState state = MakeState(program, seed);
  SetData(program, random, shape.vocabulary(), &state);
  Evaluate(program.forward, &state);
  EXPECT_NEAR(*state.loss.f32() / static_cast<float>(program.target.elements()),
              std::log(shape.vocabulary()), 0.1);
}

void CheckCount(const AnyShape& shape, const std::vector<int>& cut) {
  int64_t count = 0;
  const absl::StatusOr<std::vector<StageProgram>> programs = BuildModelStages(shape, cut);
  ASSERT_TRUE(programs.ok()) << programs.status();
  for (const StageProgram& program : *programs) {
    for (const Param& param : program.params) {
      if (param.tied_to.empty()) count += param.type.elements();
    }
  }
  EXPECT_EQ(count, CountParams(shape));
}

}  // namespace stringline::cpu
