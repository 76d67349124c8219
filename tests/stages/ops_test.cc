// The table of ops holds together, and shape rules say what does not fit.
#include "stages/ops.h"

#include <gtest/gtest.h>

#include <set>

#include "executor/cpu/kernel.h"
#include "tests/stages/experts_ops.h"

namespace stringline {
namespace {

Type F32(std::vector<int64_t> shape) { return {DType::kF32, std::move(shape)}; }
Type I32(std::vector<int64_t> shape) { return {DType::kI32, std::move(shape)}; }

TEST(Ops, EveryRowIsWhole) {
  std::set<std::string> names;
  for (const OpRow& row : AllOps()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(&RowOf(row.op), &row);
    EXPECT_EQ(OpNamed(row.name), &row);
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_NE(row.shape, nullptr);
    EXPECT_NE(cpu::KernelFor(row.op), nullptr);
    EXPECT_GE(row.outputs, 1);
    EXPECT_LT(row.accumulates, 1u << row.outputs);
    const std::vector<Type> too_many(row.inputs + 1, F32({2, 2}));
    EXPECT_FALSE(InferTypes(row.op, too_many, std::vector<double>(row.attributes.size(), 1)).ok());
    const std::vector<double> attributes(row.attributes.size() + 1, 1);
    EXPECT_FALSE(InferTypes(row.op, std::vector<Type>(row.inputs, F32({2, 2})), attributes).ok());
  }
  EXPECT_EQ(OpNamed("linea"), nullptr);
}

struct ShapeCase {
  Op op;
  std::vector<Type> inputs;
  std::vector<double> attributes;
  const char* message;
};

TEST(Ops, ShapeRulesRefuse) {
  const ShapeCase cases[] = {
      {Op::kLinear,
       {F32({2, 3}), F32({4, 2})},
       {},
       "linear wants x (..,K) and w (O,K), seen: f32[2,3], f32[4,2]"},
      {Op::kLinear, {F32({2, 3}), I32({4, 3})}, {}, "input 1 is not f32, seen: f32[2,3], i32[4,3]"},
      {Op::kLinear,
       {F32({}), F32({4, 3})},
       {},
       "linear wants x (..,K) and w (O,K), seen: f32[], f32[4,3]"},
      {Op::kLinear, {F32({2, 3})}, {}, "linear has 1 inputs instead of 2"},
      {Op::kLinearInputGrad,
       {F32({2, 3}), F32({4, 3})},
       {},
       "linear_input_grad wants dy (..,O) and w (O,K), seen: f32[2,3], f32[4,3]"},
      {Op::kLinearWeightGrad,
       {F32({2, 3}), F32({4, 3})},
       {},
       "linear_weight_grad wants dy (..,O) and x (..,K), seen: f32[2,3], f32[4,3]"},
      {Op::kLinearBias,
       {F32({2, 3}), F32({4, 3}), F32({3})},
       {},
       "linear_bias wants x (..,K), w (O,K) and b (O), seen: f32[2,3], f32[4,3], f32[3]"},
      {Op::kLinearResidual,
       {F32({2, 3}), F32({4, 3}), F32({4}), F32({2, 3})},
       {},
       "linear_residual wants x (..,K), w (O,K), b (O) and z (..,O), seen: f32[2,3], f32[4,3], "
       "f32[4], f32[2,3]"},
      {Op::kColumnSum, {F32({})}, {}, "column_sum wants dy (..,C), seen: f32[]"},
      {Op::kAdd, {F32({2}), F32({3})}, {}, "the two inputs differ in shape, seen: f32[2], f32[3]"},
      {Op::kMul,
       {F32({2}), F32({2, 1})},
       {},
       "the two inputs differ in shape, seen: f32[2], f32[2,1]"},
      {Op::kScale, {F32({2})}, {}, "scale has 0 attributes instead of 1"},
      {Op::kGelu, {I32({2})}, {}, "input 0 is not f32, seen: i32[2]"},
      {Op::kGeluGrad,
       {F32({2}), F32({3})},
       {},
       "the two inputs differ in shape, seen: f32[2], f32[3]"},
      {Op::kConstant, {F32({})}, {1}, "constant has 1 inputs instead of 0"},
      {Op::kLayerNorm,
       {F32({2, 3}), F32({3}), F32({2})},
       {1e-5},
       "layer_norm wants x (..,C), gamma (C) and beta (C), seen: f32[2,3], f32[3], f32[2]"},
      {Op::kLayerNormGrad,
       {F32({2, 3}), F32({2, 3}), F32({3}), F32({3}), F32({2})},
       {},
       "layer_norm_grad wants dy (..,C), x (..,C), gamma (C), mean (..) and rstd (..), seen: "
       "f32[2,3], f32[2,3], f32[3], f32[3], f32[2]"},
      {Op::kAttention,
       {F32({2, 4, 12})},
       {3, 1},
       "attention wants qkv (B,T,(H+2K)D), 5 heads in all, seen: f32[2,4,12]"},
      {Op::kAttention, {F32({2, 4, 12})}, {0.5, 1}, "attention with 0.5 heads"},
      {Op::kAttention, {F32({2, 4, 12})}, {1, 0}, "attention with 0 heads"},
      {Op::kAttention,
       {F32({2, 4, 14})},
       {3, 2},
       "attention with 3 heads of queries for 2 of keys and values"},
      {Op::kAttentionGrad,
       {F32({2, 4, 4}), F32({2, 4, 12}), F32({2, 4, 4}), F32({2, 4, 2})},
       {2, 2},
       "attention_grad wants dy (B,T,HD), qkv (B,T,(H+2K)D), y (B,T,HD) and lse (B,H,T), seen: "
       "f32[2,4,4], f32[2,4,12], f32[2,4,4], f32[2,4,2]"},
      {Op::kEmbedding, {F32({2}), F32({4, 3})}, {}, "input 0 is not i32, seen: f32[2], f32[4,3]"},
      {Op::kEmbedding,
       {I32({2}), F32({4})},
       {},
       "embedding wants tokens (..) and table (V,C), seen: i32[2], f32[4]"},
      {Op::kEmbeddingGrad,
       {I32({2}), F32({3, 4})},
       {5},
       "embedding_grad wants tokens (..) and dy (..,C), seen: i32[2], f32[3,4]"},
      {Op::kEmbeddingGrad, {I32({3}), F32({3, 4})}, {0}, "embedding_grad with 0 rows"},
      {Op::kPositionAdd,
       {F32({2, 3, 4}), F32({2, 4})},
       {},
       "position_add wants x (B,T,C) and table (T,C), seen: f32[2,3,4], f32[2,4]"},
      {Op::kPositionGrad, {F32({2, 3})}, {}, "position_grad wants dy (B,T,C), seen: f32[2,3]"},
      {Op::kCrossEntropy,
       {F32({2, 3}), I32({3})},
       {},
       "cross_entropy wants logits (..,V) and target (..), seen: f32[2,3], i32[3]"},
      {Op::kCrossEntropyGrad,
       {F32({1}), F32({2, 3}), I32({2}), F32({2})},
       {},
       "cross_entropy_grad wants dloss (), logits (..,V), target (..) and lse (..), seen: f32[1], "
       "f32[2,3], i32[2], f32[2]"},
      {Op::kLinearAdd,
       {F32({2, 3}), F32({4, 3}), F32({2, 3})},
       {},
       "linear_add wants x (..,K), w (O,K) and z (..,O), seen: f32[2,3], f32[4,3], f32[2,3]"},
      {Op::kRmsNorm,
       {F32({2, 3}), F32({2})},
       {1e-5},
       "rms_norm wants x (..,C) and gamma (C), seen: f32[2,3], f32[2]"},
      {Op::kRmsNormGrad,
       {F32({2, 3}), F32({2, 3}), F32({3}), F32({3})},
       {},
       "rms_norm_grad wants dy (..,C), x (..,C), gamma (C) and rstd (..), seen: f32[2,3], "
       "f32[2,3], f32[3], f32[3]"},
      {Op::kHeadNorm,
       {F32({2, 3, 12}), F32({3}), F32({4})},
       {2, 1, 1e-5},
       "head_norm wants qkv (B,T,(H+2K)D), query gamma (D) and key gamma (D), seen: f32[2,3,12], "
       "f32[3], f32[4]"},
      {Op::kHeadNormGrad,
       {F32({2, 3, 12}), F32({2, 3, 12}), F32({3}), F32({3}), F32({2, 3, 4})},
       {2, 1},
       "head_norm_grad wants dy and qkv (B,T,(H+2K)D), two gammas (D) and rstd (B,T,H+K), seen: "
       "f32[2,3,12], f32[2,3,12], f32[3], f32[3], f32[2,3,4]"},
      {Op::kRotary,
       {F32({2, 3, 12})},
       {2, 1, 1e4, 1},
       "rotary wants heads of an even size, seen: f32[2,3,12]"},
      {Op::kRotary, {F32({2, 3, 16})}, {2, 1, 0.5, 1}, "rotary with theta 0.5"},
      {Op::kRotary, {F32({2, 3, 16})}, {2, 1, 1e4, 0}, "rotary with direction 0"},
      {Op::kSwiglu, {F32({2, 3})}, {}, "swiglu wants x (..,2C), seen: f32[2,3]"},
      {Op::kSwigluGrad,
       {F32({2, 4}), F32({2, 4})},
       {},
       "swiglu_grad wants dy (..,C) and x (..,2C), seen: f32[2,4], f32[2,4]"},
  };
  std::set<Op> refused;
  for (const ShapeCase& test : cases) {
    const absl::StatusOr<std::vector<Type>> types =
        InferTypes(test.op, test.inputs, test.attributes);
    ASSERT_FALSE(types.ok()) << test.message;
    EXPECT_EQ(types.status().message(), test.message);
    refused.insert(test.op);
  }
  for (const OpRow& row : AllOps()) {
    EXPECT_TRUE(refused.count(row.op) || cpu::IsOfExperts(row.op)) << row.name;
  }
}

}  // namespace
}  // namespace stringline
