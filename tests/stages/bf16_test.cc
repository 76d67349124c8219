// BF16: its numbers, and its kernels and models against those of F32 on the same numbers.
#include "executor/engine/bf16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "absl/strings/str_split.h"
#include "executor/cpu/kernels/bf16.h"
#include "stages/ops.h"
#include "stages/program_text.h"
#include "stages/text.h"
#include "tests/stages/experts_ops.h"
#include "tests/stages/model_runs.h"
#include "tests/stages/random_values.h"
#include "tests/stages/run_kernel.h"

namespace stringline::cpu {
namespace {

TEST(Bf16, EveryNumberIsItselfAndOthersGoToTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto number = static_cast<uint16_t>(bits);
    const float value = FromBf16(number);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FromBf16(ToBf16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(ToBf16(value), number);
    if ((bits & 0x7fff) >= 0x7f7f) continue;  // the next is infinity
    const double next = FromBf16(static_cast<uint16_t>(bits + 1));
    const auto between = [&](double share) {
      return ToBf16(static_cast<float>(value + share * (next - value)));
    };
    ASSERT_EQ(between(0.49), number);
    ASSERT_EQ(between(0.51), number + 1);
    ASSERT_EQ(between(0.5), number + (number & 1)) << "of two equally near the even one";
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(FromBf16(ToBf16(infinity)), infinity);
  EXPECT_EQ(FromBf16(ToBf16(std::numeric_limits<float>::max())), infinity);
  EXPECT_EQ(FromBf16(ToBf16(-3.4e38f)), -infinity);
}

Array Widened(const Array& values) {
  if (values.type.dtype != DType::kBF16) return values;
  Array wide = MakeArray(F32(values.type.shape));
  FromBf16(values.bf16(), values.type.elements(), wide.f32());
  return wide;
}

struct KernelCase {
  const char* op;
  const char* inputs;
  std::vector<double> attributes = {};
  int32_t below = 1;  // integers are drawn from 0 .. below-1, except experts' integers
};

// Sizes that are no multiples of a vector. Products are below.
const std::vector<KernelCase>& Bf16Cases() {
  static const std::vector<KernelCase>& cases = *new std::vector<KernelCase>{
      {"column_sum", "bf16[3,85]"},
      {"add", "bf16[3,37] bf16[3,37]"},
      {"add", "bf16[2,50,97] bf16[2,50,97]"},  // more than is widened at once
      {"scale", "bf16[9001]", {0.3}},
      {"gelu", "bf16[3,1401]"},
      {"gelu_grad", "bf16[3,1401] bf16[3,1401]"},
      {"swiglu", "bf16[5,3,1000]"},
      {"swiglu_grad", "bf16[9,500] bf16[9,1000]"},
      {"swiglu", "bf16[3,9000]"},
      {"layer_norm", "bf16[7,3,401] f32[401] f32[401]", {1e-5}},
      {"rms_norm", "bf16[2,5000] f32[5000]", {1e-5}},
      {"rms_norm", "bf16[50,301] f32[301]", {1e-5}},
      {"mul", "bf16[3,37] bf16[3,37]"},
      {"scale", "bf16[3,37]", {-1.5}},
      {"cast", "bf16[3,37]", {32}},
      {"cast", "bf16[3,37]", {16}},
      {"cast", "f32[3,37]", {16}},
      {"layer_norm", "bf16[3,37] f32[37] f32[37]", {1e-5}},
      {"layer_norm_grad", "bf16[3,37] bf16[3,37] f32[37] f32[3] f32[3]"},
      {"rms_norm", "bf16[3,37] f32[37]", {1e-5}},
      {"rms_norm_grad", "bf16[3,37] bf16[3,37] f32[37] f32[3]"},
      {"head_norm", "bf16[2,3,72] f32[18] f32[18]", {2, 1, 1e-5}},
      {"head_norm_grad", "bf16[2,3,72] bf16[2,3,72] f32[18] f32[18] f32[2,3,3]", {2, 1}},
      {"gelu", "bf16[3,37]"},
      {"gelu_grad", "bf16[3,37] bf16[3,37]"},
      {"attention", "bf16[2,35,24]", {4, 2}},
      {"attention_grad", "bf16[2,35,12] bf16[2,35,24] bf16[2,35,12] f32[2,4,35]", {4, 2}},
      {"rotary", "bf16[2,4,24]", {2, 1, 1e4, 1, 3}},
      {"swiglu", "bf16[3,74]"},
      {"swiglu_grad", "bf16[3,37] bf16[3,74]"},
      {"embedding", "i32[3,4] bf16[6,5]", {}, 6},
      {"embedding_grad", "i32[3,4] bf16[3,4,5]", {6}, 6},
      {"position_add", "bf16[3,4,5] bf16[9,5]", {3}},
      {"position_grad", "bf16[3,4,5]", {9, 3}},
      {"attention_past", "bf16[2,35,24] bf16[2,33,12]", {4, 2}},
      {"attention_past_grad",
       "bf16[2,35,12] bf16[2,35,24] bf16[2,33,12] bf16[2,35,12] f32[2,4,35]",
       {4, 2}},
      {"cross_attention", "bf16[2,35,12] bf16[2,33,12]", {4, 2}},
      {"cross_attention_grad",
       "bf16[2,35,12] bf16[2,35,12] bf16[2,33,12] bf16[2,35,12] f32[2,4,35]",
       {4, 2}},
      {"packed_attention", "bf16[2,35,24] i32[2,35]", {4, 2}},
      {"packed_attention_grad",
       "bf16[2,35,12] bf16[2,35,24] i32[2,35] bf16[2,35,12] f32[2,4,35]",
       {4, 2}},
      {"packed_rotary", "bf16[2,9,24] i32[2,9]", {2, 1, 1e4, 1}},
      {"pack_keys", "bf16[2,35,24]", {4, 2}},
      {"pack_keys_grad", "bf16[2,35,12]", {4, 2}},
      {"append_positions", "bf16[2,35,12] bf16[2,3,12]"},
      {"take_positions", "bf16[2,35,12]", {3, 30}},
      {"cross_entropy", "bf16[3,39] i32[3]", {}, 39},
      {"cross_entropy_grad", "f32[] bf16[3,39] i32[3] f32[3]", {}, 39},
      {"gather_rows", "bf16[3,5] i32[3,2]"},
      {"sum_rows", "bf16[6,5] i32[3,2]"},
      {"dispatch", "bf16[7,5] i32[3] i32[1,3]", {9}},
      {"combine", "bf16[9,5] i32[3] i32[1,3]", {7}},
      {"grouped_linear", "bf16[7,5] bf16[3,4,5] i32[1,3]"},
      {"grouped_linear_input_grad", "bf16[7,4] bf16[3,4,5] i32[1,3]"},
      {"grouped_linear_weight_grad", "bf16[7,4] bf16[7,5] i32[1,3]"},
      {"expert_swiglu", "bf16[7,74] f32[7] i32[1,3]"},
      {"expert_swiglu_grad", "bf16[7,37] bf16[7,74] f32[7] i32[1,3]"},
  };
  return cases;
}

// Two rows of each expert; any order of the slots; documents.
void FillIntegers(Op op, std::mt19937_64& random, Array* integers) {
  if (integers->type.dtype == DType::kI32 && IsPacked(op)) {
    *integers = DocumentPositions(integers->type.shape[0], integers->type.shape[1], 12, random);
  }
  if (integers->type.dtype != DType::kI32 || !IsOfExperts(op)) return;
  int32_t* const first = integers->i32();
  int32_t* const end = first + integers->type.elements();
  if (op == Op::kGatherRows || op == Op::kSumRows) {
    std::iota(first, end, 0);
    std::shuffle(first, end, random);
  } else {
    std::fill(first, end, 2);
  }
}

std::vector<Array> InputsOf(const KernelCase& test, std::mt19937_64& random) {
  std::vector<Array> inputs;
  for (absl::string_view word : absl::StrSplit(test.inputs, ' ')) {
    inputs.push_back(RandomArray(ReadType(word).value(), random, test.below));
    FillIntegers(OpNamed(test.op)->op, random, &inputs.back());
  }
  return inputs;
}

void ExpectSameBytes(const Array& seen, const Array& wanted, const std::string& what) {
  ASSERT_EQ(PrintType(seen.type), PrintType(wanted.type)) << what;
  const auto* const a = static_cast<const char*>(seen.data.get());
  const auto* const b = static_cast<const char*>(wanted.data.get());
  for (int64_t i = 0; i < seen.type.bytes(); ++i) ASSERT_EQ(a[i], b[i]) << what << " byte " << i;
}

class Bf16Kernels : public SeededTest {};

TEST_F(Bf16Kernels, AreThoseOfF32Rounded) {
  for (const KernelCase& test : Bf16Cases()) {
    SCOPED_TRACE(test.op);
    const Op op = OpNamed(test.op)->op;
    const std::vector<Array> inputs = InputsOf(test, random_);
    std::vector<Array> wide;
    for (const Array& input : inputs) wide.push_back(Widened(input));
    const std::vector<Array> seen = RunKernel(op, inputs, test.attributes);
    std::vector<Array> wanted = wide;
    if (op != Op::kCast) wanted = RunKernel(op, wide, test.attributes);
    for (size_t i = 0; i < seen.size(); ++i) {
      const bool narrow = seen[i].type.dtype == DType::kBF16;
      ExpectSameBytes(seen[i], narrow ? RoundedToBf16(wanted[i]) : wanted[i], std::to_string(i));
    }
  }
}

// y (m,n) = its initial value + a (m,k) b (k,n), in double; and the sum of all absolute values.
struct Ideal {
  std::vector<double> values, sizes;
};

Ideal IdealProduct(Op op, const std::vector<Array>& in, const Array* before) {
  const bool grad = op == Op::kLinearWeightGrad, back = op == Op::kLinearInputGrad;
  const int64_t columns_a = in[0].type.shape.back(), columns_b = in[1].type.shape.back();
  const int64_t rows_a = in[0].type.elements() / columns_a;
  const int64_t rows_b = in[1].type.elements() / columns_b;
  const int64_t m = grad ? columns_a : rows_a, k = grad ? rows_a : columns_a;
  const int64_t n = grad || back ? columns_b : rows_b;
  const Array a = Widened(in[0]), b = Widened(in[1]);
  const int64_t bias = op == Op::kLinearBias || op == Op::kLinearResidual ? 2 : -1;
  const int64_t begin = op == Op::kLinearResidual ? 3 : op == Op::kLinearAdd ? 2 : -1;
  Ideal ideal;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      const auto add = [&](double term) {
        sum += term;
        size += std::abs(term);
      };
      for (int64_t l = 0; l < k; ++l) {
        add(double{a.f32()[grad ? l * m + i : i * k + l]} *
            b.f32()[grad || back ? l * n + j : j * k + l]);
      }
      if (bias >= 0) add(FromBf16(in[bias].bf16()[j]));
      if (begin >= 0) add(FromBf16(in[begin].bf16()[i * n + j]));
      if (before != nullptr) add(before->f32()[i * n + j]);
      ideal.values.push_back(sum);
      ideal.sizes.push_back(size);
    }
  }
  return ideal;
}

// The distance from a number to the next number of BF16.
double UlpOfBf16(double value) { return value == 0 ? 0 : std::ldexp(1.0, std::ilogb(value) - 7); }

// A run of the node's kernel, or of the kernel for processors without products of BF16.
Array RunProduct(Op op, const std::vector<Array>& inputs, bool widened, const Array* before) {
  Graph graph;
  Node node{op, {}, {}, {}};
  std::vector<Type> types;
  std::vector<Tensor> in;
  for (const Array& input : inputs) {
    node.inputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({input.type, ""});
    types.push_back(input.type);
    in.push_back({input.data.get(), &input.type});
  }
  const Type type = InferTypes(op, types, {}).value()[0];
  node.outputs.push_back(static_cast<ValueId>(graph.values.size()));
  graph.values.push_back({type, ""});
  Array output = NanArray(type);
  if (before != nullptr) std::copy_n(before->f32(), type.elements(), output.f32());
  const int64_t bytes = widened ? WidenedWorkspace(graph, node, 0) : WorkspaceBytes(graph, node);
  const Array workspace = NanArray(F32({bytes / 4 + 1}));
  const Tensor out = {output.data.get(), &output.type};
  const bool accumulate = before != nullptr;
  PrepareThread();
  const Kernel kernel = widened ? RunWidened : KernelFor(graph, node);
  kernel(node, in, absl::MakeConstSpan(&out, 1), absl::MakeConstSpan(&accumulate, 1),
         workspace.data.get());
  return output;
}

TEST_F(Bf16Kernels, ProductsAreRoundedOnce) {
  for (const auto& [m, k, n] :
       {std::tuple{1, 1, 1}, {3, 5, 7}, {37, 53, 19}, {64, 96, 33}, {5, 700, 3}}) {
    const auto random = [&](int64_t rows, int64_t columns) {
      return RandomArray(BF16({rows, columns}), random_);
    };
    const Array x = random(m, k), w = random(n, k), z = random(m, n);
    const Array b = RandomArray(BF16({n}), random_);
    const Array before = RandomArray(F32({n, k}), random_);
    const std::tuple<Op, std::vector<Array>, const Array*> cases[] = {
        {Op::kLinear, {x, w}, nullptr},
        {Op::kLinearBias, {x, w, b}, nullptr},
        {Op::kLinearResidual, {x, w, b, z}, nullptr},
        {Op::kLinearAdd, {x, w, z}, nullptr},
        {Op::kLinearInputGrad, {z, w}, nullptr},
        {Op::kLinearWeightGrad, {z, x}, nullptr},
        {Op::kLinearWeightGrad, {z, x}, &before}};
    for (const auto& [op, inputs, begins] : cases) {
      const Ideal ideal = IdealProduct(op, inputs, begins);
      for (const bool widened : {false, true}) {
        SCOPED_TRACE(testing::Message() << RowOf(op).name << " " << m << "x" << k << "x" << n
                                        << (widened ? " widened" : ""));
        const Array seen = RunProduct(op, inputs, widened, begins);
        const bool narrow = seen.type.dtype == DType::kBF16;
        EXPECT_EQ(narrow, op != Op::kLinearWeightGrad);
        const Array values = Widened(seen);
        for (size_t i = 0; i < ideal.values.size(); ++i) {
          ASSERT_NEAR(values.f32()[i], ideal.values[i],
                      (narrow ? UlpOfBf16(ideal.values[i]) : 0) + 1e-6 * ideal.sizes[i])
              << "element " << i;
        }
        ExpectSameBytes(RunProduct(op, inputs, widened, begins), seen, "a second time");
      }
    }
  }
}

// Outputs that depend on a number are NaN with a NaN in its place, and no others: no kernel adds
// memory beside a row or behind it to a sum, not even times zero.
TEST_F(Bf16Kernels, ProductsSpreadNaNAsANumberWould) {
  const int64_t m = 5, k = 9, n = 19;
  const auto random = [&](std::vector<int64_t> shape) {
    return RandomArray(BF16(std::move(shape)), random_);
  };
  const Array x = random({m, k}), w = random({n, k}), z = random({m, n}), b = random({n});
  const std::pair<Op, std::vector<Array>> cases[] = {{Op::kLinear, {x, w}},
                                                     {Op::kLinearBias, {x, w, b}},
                                                     {Op::kLinearResidual, {x, w, b, z}},
                                                     {Op::kLinearAdd, {x, w, z}},
                                                     {Op::kLinearInputGrad, {z, w}},
                                                     {Op::kLinearWeightGrad, {z, x}}};
  for (const auto& [op, inputs] : cases) {
    const Array before = Widened(RunProduct(op, inputs, false, nullptr));
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (int64_t e = 0; e < inputs[i].type.elements(); ++e) {
        uint16_t& element = inputs[i].bf16()[e];
        const uint16_t kept = element;
        element = ToBf16(1000.0f);
        const Array other = Widened(RunProduct(op, inputs, false, nullptr));
        element = ToBf16(std::numeric_limits<float>::quiet_NaN());
        const Array seen = Widened(RunProduct(op, inputs, false, nullptr));
        element = kept;
        for (int64_t o = 0; o < before.type.elements(); ++o) {
          const float was = before.f32()[o], is = seen.f32()[o];
          ASSERT_TRUE(other.f32()[o] == was ? is == was : std::isnan(is))
              << RowOf(op).name << " input " << i << " element " << e << " output " << o << ": "
              << was << ", became " << is;
        }
      }
    }
  }
}

TEST(Bf16, HasACaseForEveryOpThatTakesIt) {
  std::set<Op> tried;
  for (const KernelCase& test : Bf16Cases()) tried.insert(OpNamed(test.op)->op);
  for (const Op op : {Op::kLinear, Op::kLinearBias, Op::kLinearResidual, Op::kLinearAdd,
                      Op::kLinearInputGrad, Op::kLinearWeightGrad}) {
    tried.insert(op);
  }
  const std::set<Op> of_f32_alone = {Op::kConstant,      Op::kRoute,         Op::kRouteGrad,
                                     Op::kChoiceCounts,  Op::kBalanceLoss,   Op::kBalanceLossGrad,
                                     Op::kDispatchPlan,  Op::kGatherWeights, Op::kScatterWeights,
                                     Op::kAllToAllCounts};
  for (const OpRow& row : AllOps()) {
    if (IsOfAnyTensor(row.op)) continue;
    EXPECT_NE(tried.count(row.op), of_f32_alone.count(row.op)) << row.name;
  }
}

AnyShape InBf16(AnyShape shape) {
  shape.dtype = DType::kBF16;
  return shape;
}

GptShape Bf16Gpt() {
  return {.layers = 3, .width = 24, .heads = 2, .context = 12, .vocabulary = 40, .microbatch = 2};
}

DecoderShape Bf16Llama() {
  DecoderShape shape;
  shape.layers = 3;
  shape.width = 24;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 6;
  shape.hidden = 40;
  shape.context = 12;
  shape.vocabulary = 40;
  shape.microbatch = 2;
  shape.qkv_bias = true;
  shape.qk_norm = true;
  return shape;
}

DecoderShape Bf16Moe() {
  DecoderShape shape = Bf16Llama();
  shape.moe.experts = 4;
  shape.moe.top_k = 2;
  shape.moe.expert_hidden = 16;
  shape.moe.shared_hidden = 8;
  shape.moe.aux_coefficient = 0.01;
  shape.moe.balance_rate = 1e-3;
  return shape;
}

TEST(Bf16Models, CutsAndSplitsChangeNoBit) {
  for (const AnyShape& shape : {AnyShape(Bf16Gpt()), AnyShape(Bf16Llama()), AnyShape(Bf16Moe())}) {
    SCOPED_TRACE(KindOf(shape));
    CheckCuts(InBf16(shape), {{3}, {1, 2}, {1, 1, 1}, {0, 3, 0}});
  }
}

// The types of a model: parameters and values by their names.
TEST(Bf16Models, WhatIsSmallOrDelicateStaysF32) {
  const auto program = std::move((*BuildModelStages(InBf16(Bf16Moe()), std::vector<int>{3}))[0]);
  for (const Param& param : program.params) {
    const bool wide = param.name.find("norm") != std::string::npos ||
                      param.name.find("router") != std::string::npos;
    EXPECT_EQ(param.type.dtype, wide ? DType::kF32 : DType::kBF16) << param.name;
  }
  const auto read = ReadStageProgram(PrintStageProgram(program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, program);
  for (const Port& port : program.backward.outputs) {
    if (port.role != Role::kParamGrad) continue;
    EXPECT_EQ(program.backward.values[port.value].type.dtype, DType::kF32) << port.index;
  }
  std::set<Op> narrow;
  for (const Node& node : program.forward.nodes) {
    if (program.forward.values[node.outputs[0]].type.dtype == DType::kBF16) narrow.insert(node.op);
  }
  for (const Op op :
       {Op::kEmbedding, Op::kRmsNorm, Op::kLinear, Op::kLinearBias, Op::kHeadNorm, Op::kRotary,
        Op::kAttention, Op::kLinearAdd, Op::kGatherRows, Op::kDispatch, Op::kGroupedLinear,
        Op::kExpertSwiglu, Op::kCombine, Op::kSumRows, Op::kAdd}) {
    EXPECT_EQ(narrow.count(op), 1u) << RowOf(op).name;
  }
  EXPECT_EQ(narrow.count(Op::kRoute) + narrow.count(Op::kCrossEntropy), 0u);
}

// The router's input in F32 is recomputed from BF16: no F32 value of a whole activation's size is
// kept or handed on.
TEST(Bf16Models, NothingIsKeptTwiceAsWide) {
  for (const AnyShape& shape : {AnyShape(Bf16Gpt()), AnyShape(Bf16Llama()), AnyShape(Bf16Moe())}) {
    const auto program = std::move((*BuildModelStages(InBf16(shape), std::vector<int>{3}))[0]);
    const int64_t activation = shape.tokens() * shape.width();
    int narrow = 0;
    for (const Saved& saved : program.saved) {
      if (saved.type.dtype == DType::kBF16) {
        ++narrow;
      } else {
        EXPECT_LT(saved.type.elements(), activation) << PrintType(saved.type);
      }
    }
    EXPECT_GT(narrow, 10);
    for (const Type& stash : program.stash)
      EXPECT_EQ(stash.dtype, DType::kBF16) << PrintType(stash);
  }
}

// The distance of two gradients over the length of the second, over all parameters with a gradient.
double Apart(const ModelResult& a, const ModelResult& b) {
  double apart = 0, length = 0;
  for (const auto& [name, values] : a.grads) {
    if (name.find("router.bias") != std::string::npos) continue;  // no gradient: counts
    for (size_t i = 0; i < values.size(); ++i) {
      const double off = double{values[i]} - b.grads.at(name)[i];
      apart += off * off;
      length += double{values[i]} * values[i];
    }
  }
  return std::sqrt(apart / length);
}

// The relative error of weights and of every value between two nodes is at most 2^-9, about 2^-10
// on average, in random directions. A gradient depends on some ten such values per layer, forward
// and backward: three layers give sqrt(60) 2^-10, or one in a hundred of its length. Twice this is
// refused. With fewer choices than experts a choice could change; here every expert is chosen.
TEST(Bf16Models, GradientsAreNearThoseOfF32) {
  DecoderShape moe = Bf16Moe();
  moe.moe.top_k = moe.moe.experts;
  for (const AnyShape& shape : {AnyShape(Bf16Gpt()), AnyShape(Bf16Llama()), AnyShape(moe)}) {
    SCOPED_TRACE(KindOf(shape));
    std::mt19937_64 random(5);
    const std::vector<Batch> batches = RandomBatches(shape, random);
    const std::vector<int> whole = {shape.layers()};
    const ModelResult wide = RunModel(*BuildModelStages(shape, whole), batches, 7, Mode::kWhole);
    const ModelResult narrow =
        RunModel(*BuildModelStages(InBf16(shape), whole), batches, 7, Mode::kWhole);
    ASSERT_EQ(wide.losses.size(), narrow.losses.size());
    for (size_t i = 0; i < wide.losses.size(); ++i) {
      EXPECT_NEAR(narrow.losses[i], wide.losses[i], 2e-3 * wide.losses[i]) << i;
    }
    const double apart = Apart(wide, narrow);
    EXPECT_LT(apart, 0.015);
    EXPECT_GT(apart, 1e-4) << "nothing was rounded";
  }
}

}  // namespace
}  // namespace stringline::cpu
