// Decoders with experts: against a plain model in double, divided among ranks, recomputed.
#include "stages/models/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "stages/init.h"
#include "stages/ops.h"
#include "stages/program_text.h"
#include "tests/stages/model_runs.h"
#include "tests/stages/moe_shapes.h"
#include "tests/stages/plain_moe.h"

namespace stringline::cpu {
namespace {

std::vector<StageProgram> Build(const DecoderShape& shape, const std::vector<int>& cut,
                                const BuildOptions& options = {}) {
  absl::StatusOr<std::vector<StageProgram>> programs = BuildDecoderStages(shape, cut, options);
  EXPECT_TRUE(programs.ok()) << programs.status();
  return *std::move(programs);
}

TEST(Moe, CutsAndSplitsChangeNoBit) {
  for (const DecoderShape& shape : MoeShapes()) {
    CheckCuts(shape, {{4}, {2, 2}, {1, 3}, {1, 1, 1, 1}, {0, 4, 0}});
  }
}

TEST(Moe, CountsItsParams) {
  for (const DecoderShape& shape : MoeShapes()) CheckCount(shape, {1, 1, 2});
}

TEST(Moe, StartsAtTheUniformLoss) {
  for (const DecoderShape& shape : MoeShapes()) CheckFirstLoss(shape);
}

std::vector<int> IntsOf(const Array& array) {
  return {array.i32(), array.i32() + array.type.elements()};
}

std::map<std::string, plain::Numbers> NumbersOf(const StageProgram& program,
                                                const std::vector<Array>& arrays) {
  std::map<std::string, plain::Numbers> numbers;
  for (size_t p = 0; p < program.params.size(); ++p) {
    numbers[program.params[p].name].assign(arrays[p].f32(),
                                           arrays[p].f32() + arrays[p].type.elements());
  }
  return numbers;
}

// Params far from the initial values, and tokens, such that single precision chooses as double
// does.
StageState RandomState(const StageProgram& program, const DecoderShape& shape,
                       std::mt19937_64& random) {
  while (true) {
    StageState state = MakeState(program, random());
    for (size_t p = 0; p < program.params.size(); ++p) {
      const Array noise = RandomArray(program.params[p].type, random);
      const float factor = program.params[p].update == Update::kBalance ? 0.1f : 0.3f;
      for (int64_t i = 0; i < noise.type.elements(); ++i) {
        state.params[p].f32()[i] += factor * noise.f32()[i];
      }
    }
    state.inputs[0] = RandomArray(program.inputs[0].type, random, shape.vocabulary);
    state.target = RandomArray(program.target, random, shape.vocabulary);
    std::vector<plain::Routing> routing;
    const plain::Result result =
        plain::Loss(shape, NumbersOf(program, state.params), IntsOf(state.inputs[0]),
                    IntsOf(state.target), &routing);
    if (result.gap > 1e-4) return state;
  }
}

double WithAux(const plain::Result& result) {
  return std::accumulate(result.aux_losses.begin(), result.aux_losses.end(), result.loss);
}

// For some elements of every parameter, against central differences with a fixed choice.
TEST(Moe, LossAndGradientsAreThoseOfThePlainModel) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (DecoderShape shape : MoeShapes()) {
    shape.layers = 2;
    shape.context = 6;
    SCOPED_TRACE(absl::StrCat(shape.moe.experts, " experts"));
    const StageProgram program = Build(shape, {2})[0];
    StageState state = RandomState(program, shape, random);
    Evaluate(program.forward, &state);
    Evaluate(program.backward, &state);
    std::map<std::string, plain::Numbers> params = NumbersOf(program, state.params);
    std::vector<plain::Routing> routing;
    const auto loss = [&] {
      return plain::Loss(shape, params, IntsOf(state.inputs[0]), IntsOf(state.target), &routing);
    };
    const plain::Result expected = loss();
    EXPECT_NEAR(*state.loss.f32(), expected.loss, 2e-5 * expected.loss);
    const size_t moe_layers = expected.aux_losses.size();
    EXPECT_EQ(program.moe_layers, static_cast<int>(moe_layers));
    ASSERT_EQ(state.aux_losses.size(), shape.moe.aux_coefficient == 0 ? 0 : moe_layers);
    for (size_t l = 0; l < state.aux_losses.size(); ++l) {
      EXPECT_NEAR(*state.aux_losses[l].f32(), expected.aux_losses[l],
                  1e-5 * expected.aux_losses[l]);
    }
    ASSERT_EQ(state.dropped.size(), shape.moe.capacity == 0 ? 0 : moe_layers);
    for (size_t l = 0; l < state.dropped.size(); ++l) {
      EXPECT_EQ(*state.dropped[l].f32(), expected.dropped[l]);
      EXPECT_GT(expected.dropped[l], 0) << "nothing to see";
    }
    size_t biases = 0;
    for (size_t p = 0; p < program.params.size(); ++p) {
      SCOPED_TRACE(program.params[p].name);
      plain::Numbers& values = params[program.params[p].name];
      const float* grad = state.param_grads[p].f32();
      if (program.params[p].update == Update::kBalance) {
        const plain::Numbers& load = routing[biases++].load;
        EXPECT_EQ(plain::Numbers(grad, grad + load.size()), load);
        continue;
      }
      for (int i = 0; i < 12; ++i) {
        double& value = values[random() % values.size()];
        const int64_t at = &value - values.data();
        const double kept = value;
        value = kept + 1e-4;
        const double above = WithAux(loss());
        value = kept - 1e-4;
        const double difference = (above - WithAux(loss())) / 2e-4;
        value = kept;
        ASSERT_NEAR(grad[at], difference, 2e-4 * (1 + std::abs(difference))) << at;
      }
    }
    EXPECT_EQ(biases, shape.moe.balance_rate == 0 ? 0 : moe_layers);
  }
}

std::vector<StageState*> Pointers(std::vector<StageState>& states) {
  std::vector<StageState*> pointers;
  for (StageState& state : states) pointers.push_back(&state);
  return pointers;
}

void ExpectNear(const plain::Numbers& seen, const plain::Numbers& expected) {
  ASSERT_EQ(seen.size(), expected.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_NEAR(seen[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
  }
}

// Ranks that divide the experts, each with its own microbatch, equal a single rank with all experts
// and these microbatches in sequence.
TEST(Moe, ExpertsMayBeSharedOut) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  for (const DecoderShape& shape : MoeShapes()) {
    const StageProgram whole = Build(shape, {shape.layers})[0];
    for (const int ranks : {2, shape.moe.experts}) {
      SCOPED_TRACE(absl::StrCat(shape.moe.experts, " experts, ", ranks, " ranks"));
      std::mt19937_64 random(seed);
      BuildOptions options;
      options.expert_ranks = ranks;
      const StageProgram program = Build(shape, {shape.layers}, options)[0];
      StageState alone = MakeState(whole, seed);
      std::vector<StageState> together;
      for (int x = 0; x < ranks; ++x) {
        together.push_back(MakeState(program, seed, x));
        together[x].inputs[0] = RandomArray(whole.inputs[0].type, random, shape.vocabulary);
        together[x].target = RandomArray(whole.target, random, shape.vocabulary);
      }
      const std::vector<StageState*> pointers = Pointers(together);
      EvaluateTogether(program.forward, pointers);
      EvaluateTogether(program.input_gradient, pointers);
      EvaluateTogether(program.weight_gradient, pointers);
      for (const StageState& state : together) {
        alone.inputs[0] = state.inputs[0];
        alone.target = state.target;
        Evaluate(whole.forward, &alone);
        Evaluate(whole.backward, &alone);
        EXPECT_NEAR(*state.loss.f32(), *alone.loss.f32(), 1e-5 * *alone.loss.f32());
        for (size_t l = 0; l < state.dropped.size(); ++l) {
          EXPECT_EQ(*state.dropped[l].f32(), *alone.dropped[l].f32());
        }
      }
      const auto expected = NumbersOf(whole, alone.param_grads);
      for (size_t p = 0; p < program.params.size(); ++p) {
        const Param& param = program.params[p];
        SCOPED_TRACE(param.name);
        plain::Numbers seen;
        for (const StageState& state : together) {
          const float* grad = state.param_grads[p].f32();
          const plain::Numbers own(grad, grad + param.type.elements());
          if (param.expert || seen.empty()) {
            seen.insert(seen.end(), own.begin(), own.end());
          } else {
            std::transform(seen.begin(), seen.end(), own.begin(), seen.begin(), std::plus<>());
          }
        }
        ExpectNear(seen, expected.at(param.name));
      }
    }
  }
}

TEST(Moe, PiecesOfSharedParamsBeginAsTheWhole) {
  const StageProgram whole = Build(DeepSeek(), {4})[0];
  BuildOptions options;
  options.expert_ranks = 4;
  const StageProgram program = Build(DeepSeek(), {4}, options)[0];
  const auto expected = NumbersOf(whole, MakeState(whole, 5).params);
  int shared = 0;
  for (size_t p = 0; p < program.params.size(); ++p) {
    const Param& param = program.params[p];
    plain::Numbers values;
    for (int x = 0; x < (param.expert ? 4 : 1); ++x) {
      std::vector<float> piece(param.type.elements());
      Initialize(param, 5, piece.data(), param.expert ? x : 3);
      values.insert(values.end(), piece.begin(), piece.end());
    }
    shared += param.expert;
    EXPECT_EQ(values, expected.at(param.name)) << param.name;
  }
  EXPECT_EQ(shared, 2 * 3);
}

int64_t SavedBytes(const std::vector<StageProgram>& programs) {
  int64_t bytes = 0;
  for (const StageProgram& program : programs) {
    for (const Saved& saved : program.saved) bytes += saved.type.bytes();
  }
  return bytes;
}

int64_t StashBytes(const std::vector<StageProgram>& programs) {
  int64_t bytes = 0;
  for (const StageProgram& program : programs) {
    for (const Type& type : program.stash) bytes += type.bytes();
  }
  return bytes;
}

int Collectives(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& node) { return IsCollective(node.op); }));
}

DecoderShape DenseDecoder() {
  DecoderShape shape = Mixtral();
  shape.moe = {};
  shape.hidden = 28;
  return shape;
}

TEST(Recompute, ChangesNoBitAndSavesLess) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<AnyShape> shapes = {GptShape{4, 24, 3, 20, 50, 3}, DenseDecoder()};
  for (const DecoderShape& shape : MoeShapes()) shapes.push_back(shape);
  for (const AnyShape& shape : shapes) {
    const std::vector<Batch> batches = RandomBatches(shape, random);
    const bool experts =
        SavedBytes(*BuildModelStages(shape, {4})) >
        SavedBytes(*BuildModelStages(shape, {4}, {1, {Recompute::kExperts, false}}));
    for (const std::vector<int>& cut : {std::vector<int>{4}, {1, 2, 1}}) {
      const auto kept = *BuildModelStages(shape, cut);
      const ModelResult expected = RunModel(kept, batches, seed, Mode::kWhole);
      std::map<Recompute, int64_t> saved;
      for (Recompute what : {Recompute::kAttn, Recompute::kExperts, Recompute::kAll}) {
        for (const bool for_weights : {false, true}) {
          SCOPED_TRACE(absl::StrCat(KindOf(shape), " ", testing::PrintToString(cut), " ",
                                    static_cast<int>(what), " ", for_weights));
          const auto programs = *BuildModelStages(shape, cut, {1, {what, for_weights}});
          for (Mode mode : {Mode::kWhole, Mode::kSplit, Mode::kDeferred}) {
            ExpectSameBits(RunModel(programs, batches, seed, mode), expected);
          }
          saved[what] = SavedBytes(programs);
          if (for_weights) {
            EXPECT_LE(StashBytes(programs), StashBytes(kept));
          } else if (what != Recompute::kExperts || experts) {
            EXPECT_GT(StashBytes(programs), StashBytes(kept));
          }
          for (size_t s = 0; s < programs.size(); ++s) {
            EXPECT_EQ(Collectives(programs[s].input_gradient), Collectives(kept[s].input_gradient));
            EXPECT_EQ(Collectives(programs[s].weight_gradient), 0);
            EXPECT_TRUE(CheckStageProgram(programs[s]).ok()) << CheckStageProgram(programs[s]);
          }
        }
      }
      EXPECT_LT(saved[Recompute::kAttn], SavedBytes(kept));
      EXPECT_EQ(saved[Recompute::kExperts] < SavedBytes(kept), experts);
      EXPECT_LE(saved[Recompute::kAll], saved[Recompute::kAttn]);
      EXPECT_LE(saved[Recompute::kAll], saved[Recompute::kExperts]);
    }
  }
}

TEST(Moe, TextOfAProgramComesBackEqual) {
  for (const DecoderShape& shape : MoeShapes()) {
    for (const StageProgram& program : Build(shape, {1, 3})) {
      const auto back = ReadStageProgram(PrintStageProgram(program));
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, program);
    }
  }
}

TEST(Moe, ShapesThatAreNoModelAreRefused) {
  const auto message = [](auto change, int ranks = 1) {
    DecoderShape shape = DeepSeek();
    change(&shape.moe);
    // As many tokens as channels at least.
    shape.context = std::max(shape.context, shape.moe.expert_hidden);
    BuildOptions options;
    options.expert_ranks = ranks;
    return std::string(BuildDecoderStages(shape, {4}, options).status().message());
  };
  EXPECT_EQ(message([](MoeShape* moe) { moe->top_k = 9; }), "a token chooses 9 experts of 4");
  EXPECT_EQ(message([](MoeShape* moe) { moe->top_k = 0; }),
            "a mixture of experts with top_k 0: not in 1 .. 1048576");
  EXPECT_EQ(message([](MoeShape* moe) { moe->groups = 3; }),
            "8 experts do not divide into 3 groups");
  EXPECT_EQ(message([](MoeShape* moe) { moe->top_groups = 5; }),
            "the best 5 of 4 groups, by the best 2 of 2 experts");
  EXPECT_EQ(message([](MoeShape* moe) { moe->capacity = std::nan(""); }),
            "a mixture of experts with scale 2.5, balance_rate 0.001, aux_coefficient 0.5 and "
            "capacity nan");
  EXPECT_EQ(message([](MoeShape*) {}, 3), "8 experts cannot be shared out among 3 ranks");
  EXPECT_EQ(message([](MoeShape* moe) { *moe = {}; }, 2),
            "a model without experts, and 2 ranks that share them out");
  EXPECT_EQ(message([](MoeShape* moe) { moe->expert_hidden = 1 << 14; }, 2),
            "the experts of a rank may receive 196608 rows of a microbatch of 98304 choices: more "
            "than 2^31 elements, 32768 a row");
}

TEST(Moe, RowsThatARankMayReceive) {
  DecoderShape shape = Qwen2Moe();  // 18 tokens, 2 of 6 experts: 6 rows each if even
  EXPECT_EQ(RowsPerExpert(shape), 5);
  EXPECT_EQ(RowsPerRank(shape, 1), 30);
  EXPECT_EQ(RowsPerRank(shape, 3), 30);
  EXPECT_EQ(RowsPerRank(shape, 6), 30);
  shape.moe.capacity = 100;
  EXPECT_EQ(RowsPerExpert(shape), 18);
  shape.moe.capacity = 0;
  EXPECT_EQ(RowsPerRank(shape, 1), 36);
  EXPECT_EQ(RowsPerRank(shape, 3), 108);
  EXPECT_EQ(RowsPerRank(shape, 6), 108);
  shape.moe.capacity = 2.5;
  EXPECT_EQ(RowsPerExpert(shape), 15);
  EXPECT_EQ(RowsPerRank(shape, 3), 90);
}

}  // namespace
}  // namespace stringline::cpu
