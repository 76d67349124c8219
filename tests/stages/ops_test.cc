// The table of ops is consistent, and shape rules report misfits.
#include "stages/ops.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/cpu/kernel.h"
#include "stages/text.h"
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
    // One too many, or two too few where the last one repeats.
    const size_t names_of = row.attributes.size();
    if (row.repeats && names_of < 2) continue;
    const std::vector<double> attributes(row.repeats ? names_of - 2 : names_of + 1, 1);
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
      {Op::kCast, {F32({2})}, {8}, "cast to 8 bits"},
      {Op::kGelu, {I32({2})}, {}, "input 0 is not f32 or bf16, seen: i32[2]"},
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
       {0},
       "position_add wants a table of at least 3 rows, seen: f32[2,3,4], f32[2,4]"},
      {Op::kPositionAdd,
       {F32({2, 3, 4}), F32({7, 4})},
       {5},
       "position_add wants a table of at least 8 rows, seen: f32[2,3,4], f32[7,4]"},
      {Op::kPositionAdd,
       {F32({2, 3, 4}), F32({7, 5})},
       {0},
       "position_add wants x (B,T,C) and table (R,C), seen: f32[2,3,4], f32[7,5]"},
      {Op::kPositionAdd,
       {F32({2, 3, 4}), F32({7, 4})},
       {-1},
       "position_add with -1 positions before the first"},
      {Op::kPositionGrad, {F32({2, 3})}, {3, 0}, "position_grad wants dy (B,T,C), seen: f32[2,3]"},
      {Op::kPositionGrad,
       {F32({2, 3, 4})},
       {5, 3},
       "position_grad to 5 rows wants 2 positions at most, seen: f32[2,3,4]"},
      {Op::kPositionGrad, {F32({2, 3, 4})}, {3.5, 0}, "position_grad with 3.5 rows"},
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
       {2, 1, 1e4, 1, 0},
       "rotary wants heads of an even size, seen: f32[2,3,12]"},
      {Op::kRotary, {F32({2, 3, 16})}, {2, 1, 0.5, 1, 0}, "rotary with theta 0.5"},
      {Op::kRotary, {F32({2, 3, 16})}, {2, 1, 1e4, 0, 0}, "rotary with direction 0"},
      {Op::kRotary,
       {F32({2, 3, 16})},
       {2, 1, 1e4, 1, 0.5},
       "rotary with 0.5 positions before the first"},
      {Op::kSwiglu, {F32({2, 3})}, {}, "swiglu wants x (..,2C), seen: f32[2,3]"},
      {Op::kSwigluGrad,
       {F32({2, 4}), F32({2, 4})},
       {},
       "swiglu_grad wants dy (..,C) and x (..,2C), seen: f32[2,4], f32[2,4]"},
      {Op::kAttentionPast,
       {F32({2, 4, 12}), F32({2, 5, 4})},
       {2, 2},
       "attention_past wants qkv (B,T,(H+2K)D) and past (B,P,2KD), seen: f32[2,4,12], f32[2,5,4]"},
      {Op::kAttentionPast,
       {F32({2, 4, 12}), F32({1, 5, 8})},
       {2, 2},
       "attention_past wants qkv (B,T,(H+2K)D) and past (B,P,2KD), seen: f32[2,4,12], f32[1,5,8]"},
      {Op::kAttentionPastGrad,
       {F32({2, 4, 4}), F32({2, 4, 12}), F32({2, 5, 8}), F32({2, 4, 4}), F32({2, 4, 2})},
       {2, 2},
       "attention_past_grad wants dy (B,T,HD), qkv (B,T,(H+2K)D), past (B,P,2KD), y (B,T,HD) and "
       "lse (B,H,T), seen: f32[2,4,4], f32[2,4,12], f32[2,5,8], f32[2,4,4], f32[2,4,2]"},
      {Op::kCrossAttention,
       {F32({2, 4, 12}), F32({2, 5, 12})},
       {2, 2},
       "cross_attention wants q (B,T,HD) and kv (B,S,2KD), seen: f32[2,4,12], f32[2,5,12]"},
      {Op::kCrossAttentionGrad,
       {F32({2, 4, 4}), F32({2, 4, 4}), F32({2, 5, 8}), F32({2, 4, 4}), F32({2, 4, 2})},
       {2, 2},
       "cross_attention_grad wants dy (B,T,HD), q (B,T,HD), kv (B,S,2KD), y (B,T,HD) and lse "
       "(B,H,T), seen: f32[2,4,4], f32[2,4,4], f32[2,5,8], f32[2,4,4], f32[2,4,2]"},
      {Op::kPackedAttention,
       {F32({2, 4, 12}), I32({4, 2})},
       {2, 2},
       "packed_attention wants qkv (B,T,(H+2K)D) and positions (B,T), seen: f32[2,4,12], i32[4,2]"},
      {Op::kPackedAttentionGrad,
       {F32({2, 4, 4}), F32({2, 4, 12}), I32({2, 4}), F32({2, 4, 4}), F32({2, 4, 2})},
       {2, 2},
       "packed_attention_grad wants dy (B,T,HD), qkv (B,T,(H+2K)D), positions (B,T), y (B,T,HD) "
       "and lse (B,H,T), seen: f32[2,4,4], f32[2,4,12], i32[2,4], f32[2,4,4], f32[2,4,2]"},
      {Op::kPackedRotary,
       {F32({2, 4, 16}), I32({8})},
       {2, 1, 1e4, 1},
       "packed_rotary wants qkv (B,T,(H+2K)D) and positions (B,T), seen: f32[2,4,16], i32[8]"},
      {Op::kPackedRotary,
       {F32({2, 4, 16}), I32({2, 4})},
       {2, 1, 1e4, 2},
       "packed_rotary with direction 2"},
      {Op::kPackKeys,
       {F32({2, 4, 12})},
       {3, 1},
       "pack_keys wants qkv (B,T,(H+2K)D), 5 heads in all, seen: f32[2,4,12]"},
      {Op::kPackKeysGrad,
       {F32({2, 4, 6})},
       {2, 2},
       "pack_keys_grad wants dy (B,T,2KD), K = 2, seen: f32[2,4,6]"},
      {Op::kPackKeysGrad,
       {F32({2, 4, 8})},
       {3, 2},
       "pack_keys_grad with 3 heads of queries for 2 of keys and values"},
      {Op::kAppendPositions,
       {F32({2, 4, 3}), F32({2, 4, 5})},
       {},
       "append_positions wants a (B,P,C) and b (B,T,C), seen: f32[2,4,3], f32[2,4,5]"},
      {Op::kTakePositions,
       {F32({2, 4, 3})},
       {3, 2},
       "take_positions wants x (B,T,C), T at least 5, seen: f32[2,4,3]"},
      {Op::kTakePositions, {F32({2, 4, 3})}, {3, 0}, "take_positions with 0 positions"},
      {Op::kMap, {F32({2})}, {1000, 0, 0}, "map with function 1000"},
      {Op::kMap, {I32({2})}, {0, 0, 0}, "map computes in f32, seen: i32[2]"},
      {Op::kMapGrad,
       {F32({2}), F32({3})},
       {0, 0, 0},
       "map_grad wants dy and x of one shape, seen: f32[2], f32[3]"},
      {Op::kZip,
       {F32({2}), F32({3})},
       {0, 0},
       "zip wants two inputs of one shape, seen: f32[2], f32[3]"},
      {Op::kZip, {F32({2}), F32({2})}, {-1, 0}, "zip with function -1"},
      {Op::kZipGrad,
       {F32({2}), F32({2}), F32({3})},
       {0, 0},
       "zip_grad wants inputs of one shape, seen: f32[2], f32[2], f32[3]"},
      {Op::kReshape, {F32({2, 3})}, {5}, "reshape to f32[5] wants as many numbers, seen: f32[2,3]"},
      {Op::kReshape, {F32({2, 3})}, {6, 0}, "reshape to size 0"},
      {Op::kPermute, {F32({2, 3})}, {0, 0}, "permute wants each dimension once, seen: f32[2,3]"},
      {Op::kPermute, {F32({2, 3})}, {1}, "permute wants every dimension, seen: f32[2,3]"},
      {Op::kExpand,
       {F32({2, 3})},
       {2, 2, 4},
       "expand to f32[2,2,4] wants sizes of 1 or the same, seen: f32[2,3]"},
      {Op::kExpand, {F32({1})}, {65536, 65536}, "expand to more than 2^31 elements"},
      {Op::kSumTo,
       {F32({2, 3})},
       {2},
       "sum_to f32[2] wants sizes that expand to the input's, seen: f32[2,3]"},
      {Op::kTake, {F32({2, 3})}, {1, 1, 2, 2}, "take of 2 parts from 1 by 2, seen: f32[2,3]"},
      {Op::kTake, {F32({2, 3})}, {2, 0, 1, 1}, "take along dimension 2, seen: f32[2,3]"},
      {Op::kPut, {F32({2, 3})}, {1, 1, 2, 5}, "put from 1 by 2 into 5 parts, seen: f32[2,3]"},
      {Op::kJoin,
       {F32({2, 3}), F32({3, 3})},
       {1},
       "join wants the same sizes in the other dimensions, seen: f32[2,3], f32[3,3]"},
      {Op::kMatMul,
       {F32({2, 3}), F32({2, 3})},
       {0, 0},
       "matmul wants (..,M,K) and (..,K,N), seen: f32[2,3], f32[2,3]"},
      {Op::kMatMul,
       {F32({3}), F32({3})},
       {0, 0},
       "matmul wants stacks of matrices, seen: f32[3], f32[3]"},
      {Op::kSoftmax, {F32({})}, {0}, "softmax wants a dimension, seen: f32[]"},
      {Op::kSoftmaxGrad,
       {F32({2}), F32({3})},
       {0},
       "softmax_grad wants dy and y of one shape, seen: f32[2], f32[3]"},
      {Op::kWhole, {I32({2})}, {}, "whole computes in f32, seen: i32[2]"},
      {Op::kFloat, {F32({2})}, {}, "float wants i32, seen: f32[2]"},
      {Op::kTopK, {F32({2, 3})}, {4, 1}, "top_k of 4, seen: f32[2,3]"},
      {Op::kTopK, {F32({})}, {1, 1}, "top_k of 1, seen: f32[]"},
      {Op::kGather,
       {F32({2, 3}), I32({3, 2})},
       {1},
       "gather wants i32 indices of the same other sizes, seen: f32[2,3], i32[3,2]"},
      {Op::kGather,
       {F32({2, 3}), F32({2, 2})},
       {1},
       "gather wants i32 indices of the same other sizes, seen: f32[2,3], f32[2,2]"},
      {Op::kScatter,
       {F32({2, 3}), I32({2, 2})},
       {1, 4, 0},
       "scatter wants i32 indices of the same sizes, seen: f32[2,3], i32[2,2]"},
      {Op::kScatter,
       {F32({2, 3}), I32({2, 3})},
       {1, 0, 0},
       "scatter into 0 parts, seen: f32[2,3], i32[2,3]"},
      {Op::kPaddedEmbedding,
       {I32({2}), F32({4, 3})},
       {4},
       "padded_embedding of row 4, seen: i32[2], f32[4,3]"},
      {Op::kPaddedEmbeddingGrad,
       {I32({2}), F32({2, 3})},
       {4, 4},
       "padded_embedding_grad of row 4, seen: i32[2], f32[2,3]"},
      {Op::kBatchNorm,
       {F32({1, 3}), F32({3}), F32({3}), F32({3}), F32({3})},
       {1e-5},
       "batch_norm wants x (B,C,..) of several numbers a channel, and (C), seen: f32[1,3], f32[3], "
       "f32[3], f32[3], f32[3]"},
      {Op::kBatchNormGrad,
       {F32({2, 3}), F32({2, 3}), F32({2}), F32({3}), F32({3})},
       {},
       "batch_norm_grad wants dy and x (B,C,..), and (C), seen: f32[2,3], f32[2,3], f32[2], "
       "f32[3], "
       "f32[3]"},
      {Op::kFloatOfBits, {F32({2})}, {}, "float_of_bits wants i32, seen: f32[2]"},
      {Op::kDropout, {I32({3}), I32({4})}, {0.5, 0}, "dropout computes in f32, seen: i32[3]"},
      {Op::kDropout,
       {F32({3}), I32({3})},
       {0.5, 0},
       "dropout wants a key i32[4], seen: f32[3], i32[3]"},
      {Op::kDropout,
       {F32({3}), I32({4})},
       {1.5, 0},
       "dropout of 1.5, which is no probability from 0 to 1"},
      {Op::kDropout,
       {F32({3}), I32({4})},
       {0.5, -1},
       "dropout with site -1, which is no number of an op"},
      {Op::kConvolution,
       {F32({2, 3, 7}), F32({4, 2, 3})},
       {1, 7, 3, 1, 1, 1, 1},
       "convolution wants x (B,C,D) and w (O,C/G,K), seen: f32[2,3,7], f32[4,2,3]"},
      {Op::kConvolution,
       {F32({2, 3, 7}), F32({4, 3, 3})},
       {1, 7, 3, 0, 1, 1, 1},
       "convolution with a kernel that does not fit, seen: f32[2,3,7], f32[4,3,3]"},
      {Op::kConvolution,
       {F32({2, 3, 7}), F32({4, 3, 3})},
       {1, 7, 3, 1, 1},
       "convolution with 4 numbers of windows"},
      {Op::kConvolutionInputGrad,
       {F32({2, 4, 6}), F32({4, 3, 3})},
       {1, 7, 3, 1, 1, 1, 1},
       "convolution_input_grad wants dy (B,O,L) and w (O,C/G,K), seen: f32[2,4,6], f32[4,3,3]"},
      {Op::kConvolutionWeightGrad,
       {F32({2, 4, 7}), F32({2, 3, 6})},
       {1, 7, 3, 1, 1, 1, 1},
       "convolution_weight_grad wants dy (B,O,L) and x (B,C,D), seen: f32[2,4,7], f32[2,3,6]"},
      {Op::kMaxPool,
       {F32({2, 7})},
       {7, 3, 1, 3, 0, 1},
       "max_pool with a window of padding alone, seen: f32[2,7]"},
      {Op::kMaxPoolGrad,
       {F32({2, 4}), F32({2, 4})},
       {7, 3, 2, 1, 1, 1},
       "max_pool_grad wants dy (..,L) and places i32 (..,L), seen: f32[2,4], f32[2,4]"},
      {Op::kNumbers, {}, {0, 1, 2, 5}, "1 numbers for f32[2]"},
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

std::string InferredText(absl::string_view op, absl::string_view inputs,
                         const std::vector<double>& attributes) {
  std::vector<Type> types;
  for (absl::string_view word : absl::StrSplit(inputs, ' ', absl::SkipEmpty())) {
    types.push_back(ReadType(word).value());
  }
  const absl::StatusOr<std::vector<Type>> inferred = InferTypes(OpNamed(op)->op, types, attributes);
  if (!inferred.ok()) return std::string(inferred.status().message());
  return absl::StrJoin(*inferred, " ", [](std::string* text, const Type& type) {
    absl::StrAppend(text, PrintType(type));
  });
}

struct TypeCase {
  const char* op;
  const char* inputs;
  const char* outputs;
  std::vector<double> attributes = {};
};

// Activations keep their type; statistics, losses and gradients of parameters are F32.
TEST(Ops, TypesOfBf16) {
  const TypeCase cases[] = {
      {"linear", "bf16[2,3] bf16[4,3]", "bf16[2,4]"},
      {"linear_bias", "bf16[2,3] bf16[4,3] bf16[4]", "bf16[2,4]"},
      {"linear_residual", "bf16[2,3] bf16[4,3] bf16[4] bf16[2,4]", "bf16[2,4]"},
      {"linear_add", "bf16[2,3] bf16[4,3] bf16[2,4]", "bf16[2,4]"},
      {"linear_input_grad", "bf16[2,4] bf16[4,3]", "bf16[2,3]"},
      {"linear_weight_grad", "bf16[2,4] bf16[2,3]", "f32[4,3]"},
      {"column_sum", "bf16[2,4]", "f32[4]"},
      {"add", "bf16[2] bf16[2]", "bf16[2]"},
      {"mul", "bf16[2] bf16[2]", "bf16[2]"},
      {"scale", "bf16[2]", "bf16[2]", {2}},
      {"cast", "bf16[2]", "f32[2]", {32}},
      {"cast", "f32[2]", "bf16[2]", {16}},
      {"cast", "bf16[2]", "bf16[2]", {16}},
      {"layer_norm", "bf16[2,3] f32[3] f32[3]", "bf16[2,3] f32[2] f32[2]", {1e-5}},
      {"layer_norm_grad", "bf16[2,3] bf16[2,3] f32[3] f32[2] f32[2]", "bf16[2,3] f32[3] f32[3]"},
      {"rms_norm", "bf16[2,3] f32[3]", "bf16[2,3] f32[2]", {1e-5}},
      {"rms_norm_grad", "bf16[2,3] bf16[2,3] f32[3] f32[2]", "bf16[2,3] f32[3]"},
      {"head_norm", "bf16[2,3,12] f32[3] f32[3]", "bf16[2,3,12] f32[2,3,3]", {2, 1, 1e-5}},
      {"head_norm_grad",
       "bf16[2,3,12] bf16[2,3,12] f32[3] f32[3] f32[2,3,3]",
       "bf16[2,3,12] f32[3] f32[3]",
       {2, 1}},
      {"gelu", "bf16[2]", "bf16[2]"},
      {"gelu_grad", "bf16[2] bf16[2]", "bf16[2]"},
      {"attention", "bf16[2,4,12]", "bf16[2,4,4] f32[2,2,4]", {2, 2}},
      {"attention_grad", "bf16[2,4,4] bf16[2,4,12] bf16[2,4,4] f32[2,2,4]", "bf16[2,4,12]", {2, 2}},
      {"rotary", "bf16[2,3,16]", "bf16[2,3,16]", {2, 1, 1e4, 1, 0}},
      {"swiglu", "bf16[2,6]", "bf16[2,3]"},
      {"swiglu_grad", "bf16[2,3] bf16[2,6]", "bf16[2,6]"},
      {"embedding", "i32[2,3] bf16[5,4]", "bf16[2,3,4]"},
      {"embedding_grad", "i32[2,3] bf16[2,3,4]", "f32[5,4]", {5}},
      {"position_add", "bf16[2,3,4] bf16[3,4]", "bf16[2,3,4]", {0}},
      {"position_grad", "bf16[2,3,4]", "f32[8,4]", {8, 5}},
      {"attention_past", "bf16[2,4,12] bf16[2,3,8]", "bf16[2,4,4] f32[2,2,4]", {2, 2}},
      {"attention_past_grad",
       "bf16[2,4,4] bf16[2,4,12] bf16[2,3,8] bf16[2,4,4] f32[2,2,4]",
       "bf16[2,4,12] bf16[2,3,8]",
       {2, 2}},
      {"cross_attention", "bf16[2,4,4] bf16[2,3,8]", "bf16[2,4,4] f32[2,2,4]", {2, 2}},
      {"cross_attention_grad",
       "bf16[2,4,4] bf16[2,4,4] bf16[2,3,8] bf16[2,4,4] f32[2,2,4]",
       "bf16[2,4,4] bf16[2,3,8]",
       {2, 2}},
      {"pack_keys", "bf16[2,4,8]", "bf16[2,4,4]", {2, 1}},
      {"pack_keys_grad", "bf16[2,4,4]", "bf16[2,4,8]", {2, 1}},
      {"append_positions", "bf16[2,3,4] bf16[2,1,4]", "bf16[2,4,4]"},
      {"take_positions", "bf16[2,5,4]", "bf16[2,2,4]", {3, 2}},
      {"cross_entropy", "bf16[2,7] i32[2]", "f32[] f32[2]"},
      {"cross_entropy_grad", "f32[] bf16[2,7] i32[2] f32[2]", "bf16[2,7]"},
      {"gather_rows", "bf16[3,4] i32[3,2]", "bf16[6,4]"},
      {"sum_rows", "bf16[6,4] i32[3,2]", "bf16[3,4]"},
      {"dispatch", "bf16[6,4] i32[4] i32[2,2]", "bf16[9,4]", {9}},
      {"dispatch", "f32[6] i32[4] i32[2,2]", "f32[9]", {9}},
      {"combine", "bf16[9,4] i32[4] i32[2,2]", "bf16[6,4]", {6}},
      {"grouped_linear", "bf16[6,4] bf16[2,5,4] i32[3,2]", "bf16[6,5]"},
      {"grouped_linear_input_grad", "bf16[6,5] bf16[2,5,4] i32[3,2]", "bf16[6,4]"},
      {"grouped_linear_weight_grad", "bf16[6,5] bf16[6,4] i32[3,2]", "f32[2,5,4]"},
      {"expert_swiglu", "bf16[6,8] f32[6] i32[3,2]", "bf16[6,4]"},
      {"expert_swiglu_grad", "bf16[6,4] bf16[6,8] f32[6] i32[3,2]", "bf16[6,8] f32[6]"},
      // Misfits.
      {"linear", "bf16[2,3] f32[4,3]", "input 1 is not bf16, seen: bf16[2,3], f32[4,3]"},
      {"linear", "f32[2,3] bf16[4,3]", "input 1 is not f32, seen: f32[2,3], bf16[4,3]"},
      {"linear_bias", "bf16[2,3] bf16[4,3] f32[4]",
       "input 2 is not bf16, seen: bf16[2,3], bf16[4,3], f32[4]"},
      {"add", "bf16[2] f32[2]", "input 1 is not bf16, seen: bf16[2], f32[2]"},
      {"rms_norm", "bf16[2,3] bf16[3]", "input 1 is not f32, seen: bf16[2,3], bf16[3]", {1e-5}},
      {"embedding", "bf16[2] bf16[5,4]", "input 0 is not i32, seen: bf16[2], bf16[5,4]"},
      {"route",
       "bf16[2,4] f32[4]",
       "route wants logits (..,E), seen: bf16[2,4], f32[4]",
       {2, 0, 0, 1, 1, 1, 1}},
      {"dispatch",
       "bf16[6] i32[4] i32[2,2]",
       "dispatch wants x (S,C) or (S), counts (E) and received (X,e), seen: bf16[6], i32[4], "
       "i32[2,2]",
       {9}},
      {"grouped_linear", "bf16[6,4] f32[2,5,4] i32[3,2]",
       "grouped_linear wants x (R,K), w (e,O,K) and received (X,e), seen: bf16[6,4], f32[2,5,4], "
       "i32[3,2]"},
  };
  for (const TypeCase& test : cases) {
    EXPECT_EQ(InferredText(test.op, test.inputs, test.attributes), test.outputs)
        << test.op << " " << test.inputs;
  }
}

}  // namespace
}  // namespace stringline
