// Every differentiable op against central differences, through autodiff and the CPU kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "stages/builder.h"
#include "stages/functions.h"
#include "stages/ops.h"
#include "stages/program_text.h"
#include "stages/split.h"
#include "tests/stages/experts_ops.h"
#include "tests/stages/random_values.h"

namespace stringline::cpu {
namespace {

// An op with inputs of these types. Integers are drawn from 0 .. below-1.
struct OpCase {
  Op op;
  std::vector<Type> inputs;
  std::vector<double> attributes;
  int32_t below = 1;
};

// Sizes that are no multiples of a vector, and some larger than a vector.
const std::vector<OpCase>& Cases() {
  static const std::vector<OpCase>& cases = *new std::vector<OpCase>{
      {Op::kLinear, {F32({2, 3, 5}), F32({4, 5})}, {}},
      {Op::kLinear, {F32({7, 33}), F32({18, 33})}, {}},
      {Op::kLinearBias, {F32({2, 3, 5}), F32({4, 5}), F32({4})}, {}},
      {Op::kLinearBias, {F32({3, 7}), F32({69, 7}), F32({69})}, {}},
      {Op::kLinearResidual, {F32({2, 3, 5}), F32({4, 5}), F32({4}), F32({2, 3, 4})}, {}},
      {Op::kLinearResidual, {F32({3, 7}), F32({69, 7}), F32({69}), F32({3, 69})}, {}},
      {Op::kAdd, {F32({3, 5}), F32({3, 5})}, {}},
      {Op::kMul, {F32({3, 5}), F32({3, 5})}, {}},
      {Op::kScale, {F32({3, 5})}, {-1.5}},
      {Op::kCast, {F32({3, 5})}, {32}},
      {Op::kLayerNorm, {F32({3, 2, 5}), F32({5}), F32({5})}, {1e-5}},
      {Op::kLayerNorm, {F32({3, 37}), F32({37}), F32({37})}, {1e-5}},
      {Op::kGelu, {F32({3, 15})}, {}},
      {Op::kAttention, {F32({2, 5, 12})}, {2, 2}},
      {Op::kAttention, {F32({1, 35, 54})}, {1, 1}},
      {Op::kAttention, {F32({2, 5, 24})}, {4, 2}},
      {Op::kAttention, {F32({1, 35, 15})}, {3, 1}},
      {Op::kEmbedding, {I32({3, 4}), F32({6, 5})}, {}, 6},
      {Op::kPositionAdd, {F32({3, 4, 5}), F32({4, 5})}, {0}},
      {Op::kPositionAdd, {F32({3, 4, 5}), F32({9, 5})}, {3}},
      {Op::kCrossEntropy, {F32({3, 4, 7}), I32({3, 4})}, {}, 7},
      {Op::kCrossEntropy, {F32({5, 39}), I32({5})}, {}, 39},
      {Op::kLinearAdd, {F32({2, 3, 5}), F32({4, 5}), F32({2, 3, 4})}, {}},
      {Op::kRmsNorm, {F32({3, 2, 5}), F32({5})}, {1e-5}},
      {Op::kRmsNorm, {F32({3, 37}), F32({37})}, {1e-6}},
      {Op::kHeadNorm, {F32({2, 3, 25}), F32({5}), F32({5})}, {3, 1, 1e-6}},
      {Op::kHeadNorm, {F32({1, 2, 72}), F32({18}), F32({18})}, {2, 1, 1e-5}},
      {Op::kRotary, {F32({2, 4, 24})}, {2, 1, 1e4, 1, 0}},
      {Op::kRotary, {F32({1, 3, 108})}, {1, 1, 100, -1, 7}},
      {Op::kSwiglu, {F32({3, 30})}, {}},
      {Op::kSwiglu, {F32({2, 130})}, {}},
      {Op::kMap, {F32({3, 5})}, {static_cast<double>(MapFunction::tanh), 0, 0}},
      {Op::kZip, {F32({3, 5}), F32({3, 5})}, {static_cast<double>(ZipFunction::maximum), 0}},
      {Op::kReshape, {F32({4, 6})}, {2, 3, 4}},
      {Op::kPermute, {F32({2, 3, 4, 5})}, {2, 0, 3, 1}},
      {Op::kExpand, {F32({3, 1, 2})}, {2, 3, 4, 2}},
      {Op::kSumTo, {F32({2, 3, 4, 2})}, {3, 1, 2}},
      {Op::kTake, {F32({3, 7, 2})}, {1, 1, 2, 3}},
      {Op::kPut, {F32({3, 3, 2})}, {1, 1, 2, 7}},
      {Op::kJoin, {F32({2, 3, 2}), F32({2, 1, 2})}, {1}},
      {Op::kMatMul, {F32({2, 3, 4}), F32({2, 4, 5})}, {0, 0}},
      {Op::kMatMul, {F32({2, 4, 3}), F32({2, 4, 5})}, {1, 0}},
      {Op::kMatMul, {F32({2, 3, 4}), F32({2, 5, 4})}, {0, 1}},
      {Op::kMatMul, {F32({2, 4, 3}), F32({2, 5, 4})}, {1, 1}},
      {Op::kTopK, {F32({2, 5})}, {3, 1}},
      {Op::kTopK, {F32({2, 5})}, {2, 0}},
      {Op::kDropout, {F32({3, 50}), I32({4})}, {0.4, 3}, 1000},
      {Op::kDropout, {F32({3, 5}), I32({4})}, {1, 0}, 1000},
      {Op::kGather, {F32({3, 4, 2}), I32({3, 6, 2})}, {1}, 4},
      {Op::kScatter, {F32({3, 4, 2}), I32({3, 4, 2})}, {1, 6, 1}, 6},
      {Op::kPaddedEmbedding, {I32({3, 4}), F32({7, 5})}, {6}, 6},
      // One to three dimensions; groups; strides that leave a rest; paddings and dilations.
      {Op::kConvolution, {F32({2, 3, 7}), F32({4, 3, 3})}, {1, 7, 3, 1, 1, 1, 1}},
      {Op::kConvolution,
       {F32({2, 4, 6, 5}), F32({6, 2, 3, 2})},
       {2, 6, 3, 2, 1, 0, 1, 5, 2, 1, 0, 1, 3}},
      {Op::kConvolution,
       {F32({1, 2, 4, 3}), F32({2, 1, 1, 1})},
       {2, 4, 1, 1, 0, 0, 1, 3, 1, 1, 0, 0, 1}},
      {Op::kConvolution,
       {F32({1, 2, 3, 4, 3}), F32({2, 2, 2, 1, 3})},
       {1, 3, 2, 1, 0, 0, 1, 4, 1, 2, 0, 1, 1, 3, 3, 1, 2, 2, 1}},
      {Op::kBatchNorm, {F32({3, 2, 5}), F32({2}), F32({2}), F32({2}), F32({2})}, {1e-5}},
      {Op::kBatchNorm, {F32({7, 3}), F32({3}), F32({3}), F32({3}), F32({3})}, {1e-3}},
      {Op::kMaxPool, {F32({2, 3, 7})}, {7, 3, 2, 1, 1, 1}},
      {Op::kMaxPool, {F32({2, 5, 6})}, {5, 2, 1, 0, 1, 2, 6, 3, 3, 0, 0, 1}},
      {Op::kSoftmax, {F32({3, 5})}, {0}},
      {Op::kSoftmax, {F32({2, 3, 7})}, {1}},
      {Op::kAttentionPast, {F32({2, 5, 12}), F32({2, 3, 8})}, {2, 2}},
      {Op::kAttentionPast, {F32({1, 35, 27}), F32({1, 33, 18})}, {1, 1}},
      {Op::kAttentionPast, {F32({2, 5, 24}), F32({2, 40, 12})}, {4, 2}},
      {Op::kCrossAttention, {F32({2, 5, 4}), F32({2, 3, 8})}, {2, 2}},
      {Op::kCrossAttention, {F32({1, 35, 9}), F32({1, 33, 18})}, {1, 1}},
      {Op::kCrossAttention, {F32({2, 5, 12}), F32({2, 40, 12})}, {4, 2}},
      {Op::kPackedAttention, {F32({2, 7, 12}), I32({2, 7})}, {2, 2}},
      {Op::kPackedAttention, {F32({1, 35, 20}), I32({1, 35})}, {2, 1}},
      {Op::kPackedRotary, {F32({2, 6, 24}), I32({2, 6})}, {2, 1, 1e4, 1}},
      {Op::kPackedRotary, {F32({1, 3, 108}), I32({1, 3})}, {1, 1, 100, -1}},
      {Op::kPackKeys, {F32({2, 3, 24})}, {2, 1}},
      {Op::kAppendPositions, {F32({2, 3, 5}), F32({2, 4, 5})}, {}},
  };
  return cases;
}

// The op as a stage of its own: a float first input is the stage's input, the other floats are
// params, integers are tokens, targets or positions.
ForwardStage StageOf(const OpCase& test) {
  ForwardStage stage;
  stage.first = test.inputs[0].dtype == DType::kI32;
  stage.last = test.op == Op::kCrossEntropy;
  Builder builder;
  std::vector<ValueId> values;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const Type& type = test.inputs[i];
    const std::string name = absl::StrCat("x", i);
    if (i == 0) {
      values.push_back(builder.Input(Role::kInput, 0, type, name));
    } else if (type.dtype == DType::kI32) {
      const Role role = IsPacked(test.op)         ? Role::kPositions
                        : test.op == Op::kDropout ? Role::kMaskKey
                                                  : Role::kTarget;
      values.push_back(builder.Input(role, 0, type, name));
    } else {
      const int index = static_cast<int>(stage.params.size());
      values.push_back(builder.Input(Role::kParam, index, type, name));
      stage.params.push_back({name, type});
      if (test.op == Op::kBatchNorm && i > 2) stage.params.back().update = Update::kAverage;
    }
  }
  const ValueId result = builder.AppendAll(test.op, values, test.attributes, "y")[0];
  builder.Output(stage.last ? Role::kLoss : Role::kOutput, 0, result);
  stage.graph = builder.Finish();
  return stage;
}

// out_grad . output, in double; or the loss.
double Objective(const StageProgram& program, StageState* state) {
  Evaluate(program.forward, state);
  if (program.last) return *state->loss.f32();
  double sum = 0;
  for (int64_t i = 0; i < program.outputs[0].type.elements(); ++i) {
    sum += static_cast<double>(state->outputs[0].f32()[i]) * state->out_grads[0].f32()[i];
  }
  return sum;
}

// `offset` is the accumulator's initial contents.
void CompareWithDifferences(const StageProgram& program, StageState* state, const Array& input,
                            const Array& grad, const Array* offset) {
  constexpr float kStep = 1.0f / 128;
  for (int64_t i = 0; i < input.type.elements(); ++i) {
    const float kept = input.f32()[i];
    const auto difference = [&](float step) {
      double sides[2];
      for (int side = 0; side < 2; ++side) {
        input.f32()[i] = kept + (side == 0 ? step : -step);
        sides[side] = Objective(program, state);
      }
      input.f32()[i] = kept;
      return (sides[0] - sides[1]) / (2 * step);
    };
    // From two steps, so that the third derivative cancels: rows of a norm may be almost equal.
    const double expected = (4 * difference(kStep) - difference(2 * kStep)) / 3;
    const double seen = grad.f32()[i] - (offset == nullptr ? 0 : offset->f32()[i]);
    ASSERT_NEAR(seen, expected, 1e-3 * (1 + std::abs(expected))) << "element " << i;
  }
}

// Numbers further apart than a step: none overtakes another.
void Spread(Array* array, std::mt19937_64& random) {
  float* const begin = array->f32();
  const int64_t count = array->type.elements();
  for (int64_t i = 0; i < count; ++i) begin[i] = static_cast<float>(i) / 16;
  std::shuffle(begin, begin + count, random);
}

void CheckCase(const OpCase& test, std::mt19937_64& random) {
  absl::StatusOr<StageProgram> program = MakeStageProgram(StageOf(test));
  ASSERT_TRUE(program.ok()) << program.status();
  StageState state;
  state.inputs = {RandomArray(program->inputs[0].type, random, test.below)};
  if (test.op == Op::kMaxPool) Spread(&state.inputs[0], random);
  const bool indexes = test.op == Op::kGather || test.op == Op::kScatter;
  if (program->last || indexes) state.target = RandomArray(program->target, random, test.below);
  if (program->positions) {
    const std::vector<int64_t>& shape = program->positions->shape;
    state.positions = DocumentPositions(shape[0], shape[1], 12, random);
  }
  if (program->mask_key) state.mask_key = RandomArray(*program->mask_key, random, test.below);
  if (!program->last) state.out_grads = {RandomArray(program->outputs[0].type, random)};
  std::vector<Array> offsets;
  for (const Param& param : program->params) {
    state.params.push_back(RandomArray(param.type, random));
    offsets.push_back(RandomArray(param.type, random));
    state.param_grads.push_back(MakeArray(param.type));
    std::copy_n(offsets.back().f32(), param.type.elements(), state.param_grads.back().f32());
  }
  Evaluate(program->forward, &state);
  Evaluate(program->backward, &state);
  if (!program->first) {
    CompareWithDifferences(*program, &state, state.inputs[0], state.in_grads[0], nullptr);
  }
  for (size_t p = 0; p < program->params.size(); ++p) {
    SCOPED_TRACE("param " + program->params[p].name);
    if (program->params[p].update == Update::kAverage) continue;  // no gradient: a statistic
    CompareWithDifferences(*program, &state, state.params[p], state.param_grads[p], &offsets[p]);
  }
}

TEST(Gradients, EqualCentralDifferences) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const OpCase& test : Cases()) {
    SCOPED_TRACE(RowOf(test.op).name);
    CheckCase(test, random);
  }
}

TEST(Gradients, CasesReachEveryOp) {
  std::set<Op> tried, reached;
  for (const OpCase& test : Cases()) {
    tried.insert(test.op);
    absl::StatusOr<StageProgram> program = MakeStageProgram(StageOf(test));
    ASSERT_TRUE(program.ok()) << program.status();
    for (const Graph* graph : {&program->forward, &program->backward}) {
      for (const Node& node : graph->nodes) reached.insert(node.op);
    }
  }
  for (const OpRow& row : AllOps()) {
    const bool without = row.op == Op::kNumbers || row.op == Op::kWhole || row.op == Op::kFloat ||
                         row.op == Op::kFloatOfBits;
    if (IsOfExperts(row.op) || without) continue;
    EXPECT_TRUE(reached.count(row.op)) << row.name << " is in no case's programs";
    if (row.inputs == 0) continue;
    EXPECT_EQ(row.gradient != nullptr, tried.count(row.op) == 1)
        << row.name << " has a gradient rule and no case, or the other way round";
  }
}

// In double, by channel: the mean over sequences and places, and the variance as an estimate.
TEST(Gradients, OfRunningAveragesAreTheStatisticsOfTheMicrobatch) {
  const OpCase test = {
      Op::kBatchNorm, {F32({3, 2, 5}), F32({2}), F32({2}), F32({2}), F32({2})}, {1e-5}};
  absl::StatusOr<StageProgram> program = MakeStageProgram(StageOf(test));
  ASSERT_TRUE(program.ok()) << program.status();
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  StageState state;
  state.inputs = {RandomArray(F32({3, 2, 5}), random)};
  state.out_grads = {RandomArray(F32({3, 2, 5}), random)};
  for (int p = 0; p < 4; ++p) {
    state.params.push_back(RandomArray(F32({2}), random));
    state.param_grads.push_back(MakeArray(F32({2})));
    std::fill_n(state.param_grads.back().f32(), 2, 10.0f);  // of the microbatches before
  }
  Evaluate(program->forward, &state);
  Evaluate(program->backward, &state);
  for (int c = 0; c < 2; ++c) {
    double sum = 0, squares = 0;
    for (int i = 0; i < 15; ++i) sum += state.inputs[0].f32()[i / 5 * 10 + c * 5 + i % 5];
    for (int i = 0; i < 15; ++i) {
      const double off = state.inputs[0].f32()[i / 5 * 10 + c * 5 + i % 5] - sum / 15;
      squares += off * off;
    }
    EXPECT_NEAR(state.param_grads[2].f32()[c], 10 + sum / 15, 1e-5);
    EXPECT_NEAR(state.param_grads[3].f32()[c], 10 + squares / 14, 1e-5);
  }
}

// y = x w + b with a frozen w: neither B nor W has its gradient, I has that of x, and a text keeps
// the word.
TEST(Gradients, FrozenParamsHaveNone) {
  Builder builder;
  const ValueId x = builder.Input(Role::kInput, 0, F32({3, 5}), "x");
  const ValueId w = builder.Input(Role::kParam, 0, F32({4, 5}), "w");
  const ValueId b = builder.Input(Role::kParam, 1, F32({4}), "b");
  builder.Output(Role::kOutput, 0, builder.Append(Op::kLinearBias, {x, w, b}, {}));
  ForwardStage stage{false, false, {{"w", F32({4, 5})}, {"b", F32({4})}}, builder.Finish()};
  stage.params[0].frozen = true;
  absl::StatusOr<StageProgram> program = MakeStageProgram(stage);
  ASSERT_TRUE(program.ok()) << program.status();
  int of_b = 0, of_x = 0;
  for (const Graph* graph :
       {&program->backward, &program->input_gradient, &program->weight_gradient}) {
    for (const Port& port : graph->outputs) {
      EXPECT_FALSE(port.role == Role::kParamGrad && port.index == 0);
      of_b += port.role == Role::kParamGrad;
      of_x += port.role == Role::kInGrad;
    }
  }
  EXPECT_EQ(of_b, 2);
  EXPECT_EQ(of_x, 2);
  const absl::StatusOr<StageProgram> read = ReadStageProgram(PrintStageProgram(*program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *program);
}

// x is used three times, w twice, and w's gradient is a plain sum, which no accumulating op
// produces.
TEST(Gradients, AreSummedOverUses) {
  Builder builder;
  const ValueId x = builder.Input(Role::kInput, 0, F32({3, 5}), "x");
  const ValueId w = builder.Input(Role::kParam, 0, F32({3, 5}), "w");
  const ValueId square = builder.Append(Op::kMul, {x, x});
  const ValueId product = builder.Append(Op::kMul, {square, w});
  const ValueId sum = builder.Append(Op::kAdd, {product, x});
  builder.Output(Role::kOutput, 0, builder.Append(Op::kAdd, {sum, w}));
  absl::StatusOr<StageProgram> program =
      MakeStageProgram({false, false, {{"w", F32({3, 5})}}, builder.Finish()});
  ASSERT_TRUE(program.ok()) << program.status();

  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  StageState state;
  state.inputs = {RandomArray(F32({3, 5}), random)};
  state.out_grads = {RandomArray(F32({3, 5}), random)};
  state.params = {RandomArray(F32({3, 5}), random)};
  state.param_grads = {MakeArray(F32({3, 5}))};
  Evaluate(program->forward, &state);
  Evaluate(program->backward, &state);
  for (int i = 0; i < 15; ++i) {
    const double xi = state.inputs[0].f32()[i], wi = state.params[0].f32()[i];
    const double g = state.out_grads[0].f32()[i];
    EXPECT_NEAR(state.in_grads[0].f32()[i], g * (2 * xi * wi + 1), 1e-4);
    EXPECT_NEAR(state.param_grads[0].f32()[i], g * (xi * xi + 1), 1e-4);
  }
}

// Both params have the same gradient, from a node that could add into one accumulator: it must not,
// since the other gradient would then be the accumulator's contents.
TEST(Gradients, OfTwoParamsThatAreTheSame) {
  Builder builder;
  const ValueId x = builder.Input(Role::kInput, 0, F32({3, 5}), "x");
  const ValueId a = builder.Input(Role::kParam, 0, F32({3, 5}), "a");
  const ValueId b = builder.Input(Role::kParam, 1, F32({3, 5}), "b");
  const ValueId sum = builder.Append(Op::kAdd, {a, b});
  const ValueId twice = builder.Append(Op::kScale, {sum}, {2});
  builder.Output(Role::kOutput, 0, builder.Append(Op::kMul, {x, twice}));
  absl::StatusOr<StageProgram> program =
      MakeStageProgram({false, false, {{"a", F32({3, 5})}, {"b", F32({3, 5})}}, builder.Finish()});
  ASSERT_TRUE(program.ok()) << program.status();
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("STRINGLINE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  StageState state;
  state.inputs = {RandomArray(F32({3, 5}), random)};
  state.out_grads = {RandomArray(F32({3, 5}), random)};
  for (int p = 0; p < 2; ++p) {
    state.params.push_back(RandomArray(F32({3, 5}), random));
    state.param_grads.push_back(MakeArray(F32({3, 5})));
    std::fill_n(state.param_grads.back().f32(), 15, 100.0f);
  }
  Evaluate(program->forward, &state);
  Evaluate(program->backward, &state);
  for (int i = 0; i < 15; ++i) {
    for (const Array& grad : state.param_grads) {
      EXPECT_NEAR(grad.f32()[i], 100 + 2 * state.out_grads[0].f32()[i] * state.inputs[0].f32()[i],
                  1e-4);
    }
  }
}

TEST(Gradients, StopAtWhatCannotBeDifferentiated) {
  Builder builder;
  const ValueId x = builder.Input(Role::kInput, 0, F32({3, 5}), "x");
  builder.Output(Role::kOutput, 0, builder.Append(Op::kColumnSum, {x}));
  EXPECT_EQ(MakeStageProgram({false, false, {}, builder.Finish()}).status().message(),
            "column_sum has no gradient rule");

  Builder other;
  const ValueId y = other.Input(Role::kInput, 0, F32({3, 5}), "x");
  const ValueId gamma = other.Input(Role::kParam, 0, F32({5}), "gamma");
  other.Output(Role::kOutput, 0, other.AppendAll(Op::kLayerNorm, {y, gamma, gamma}, {1e-5})[1]);
  EXPECT_EQ(
      MakeStageProgram({false, false, {{"gamma", F32({5})}}, other.Finish()}).status().message(),
      "layer_norm has no gradient through output 1");
}

TEST(Gradients, AnUnusedParamIsSaid) {
  Builder builder;
  const ValueId x = builder.Input(Role::kInput, 0, F32({3}), "x");
  builder.Input(Role::kParam, 0, F32({5}), "spare");
  builder.Output(Role::kOutput, 0, builder.Append(Op::kGelu, {x}));
  EXPECT_EQ(
      MakeStageProgram({false, false, {{"spare", F32({5})}}, builder.Finish()}).status().message(),
      "the stage's result does not depend on 'spare'");
}

}  // namespace
}  // namespace stringline::cpu
