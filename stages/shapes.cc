// A rule names the types of its inputs by a letter each, compares their shapes, and gives the types
// of the outputs. An error names the types that the op wants and the types seen.
#include "stages/shapes.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/text.h"

namespace stringline {
namespace {

using Shape = std::vector<int64_t>;

Type F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

absl::Status Misfit(absl::string_view what, InputTypes in) {
  std::string seen;
  for (const Type& type : in) absl::StrAppend(&seen, seen.empty() ? "" : ", ", PrintType(type));
  return absl::InvalidArgumentError(absl::StrCat(what, ", seen: ", seen));
}

// `kinds` has a letter per input: 'x' a float, all of one type (F32 or BF16), 'f' F32, 'i' I32.
absl::Status CheckDTypes(InputTypes in, absl::string_view kinds) {
  const size_t first = kinds.find('x');
  for (size_t i = 0; i < in.size(); ++i) {
    if (i == first) {
      if (IsFloat(in[i].dtype)) continue;
      return Misfit(absl::StrCat("input ", i, " is not f32 or bf16"), in);
    }
    const DType wanted = kinds[i] == 'x'   ? in[first].dtype
                         : kinds[i] == 'f' ? DType::kF32
                                           : DType::kI32;
    if (in[i].dtype == wanted) continue;
    return Misfit(absl::StrCat("input ", i, " is not ", NameOf(wanted)), in);
  }
  return absl::OkStatus();
}

int Rank(const Type& type) { return static_cast<int>(type.shape.size()); }
int64_t Last(const Type& type) { return type.shape.back(); }
Shape Leading(const Type& type) { return Shape(type.shape.begin(), type.shape.end() - 1); }

Type WithLast(const Type& type, int64_t last) {
  Shape shape = type.shape;
  shape.back() = last;
  return {type.dtype, std::move(shape)};
}

// An attribute that is a count, at least `least`; `noun` names in an error what it counts.
absl::StatusOr<int64_t> CountOf(absl::string_view op, double value, absl::string_view noun,
                                int64_t least) {
  if (value >= static_cast<double>(least) && value <= 1e9 && value == std::floor(value)) {
    return static_cast<int64_t>(value);
  }
  return absl::InvalidArgumentError(absl::StrCat(op, " with ", value, " ", noun));
}

// The number of positions before a slice's.
absl::StatusOr<int64_t> FirstOf(absl::string_view op, double value) {
  return CountOf(op, value, "positions before the first", 0);
}

// The heads of packed queries, keys and values.
struct Heads {
  int64_t queries, keys, size;
};

absl::StatusOr<Heads> HeadsOf(absl::string_view op, const Type& qkv, Attributes attributes) {
  Heads heads{};
  SL_ASSIGN_OR_RETURN(heads.queries, CountOf(op, attributes[0], "heads", 1));
  SL_ASSIGN_OR_RETURN(heads.keys, CountOf(op, attributes[1], "heads", 1));
  if (heads.queries % heads.keys != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, " with ", heads.queries, " heads of queries for ", heads.keys, " of keys and values"));
  }
  const int64_t all = heads.queries + 2 * heads.keys;
  if (Rank(qkv) != 3 || Last(qkv) % all != 0) {
    return Misfit(absl::StrCat(op, " wants qkv (B,T,(H+2K)D), ", all, " heads in all"), {&qkv, 1});
  }
  heads.size = Last(qkv) / all;
  return heads;
}

// Heads that can be turned, theta and direction.
absl::Status CheckRotary(absl::string_view op, const Type& qkv, Attributes attributes) {
  SL_ASSIGN_OR_RETURN(const Heads heads, HeadsOf(op, qkv, attributes));
  if (heads.size % 2 != 0) {
    return Misfit(absl::StrCat(op, " wants heads of an even size"), {&qkv, 1});
  }
  if (!(attributes[2] >= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(op, " with theta ", attributes[2]));
  }
  if (std::abs(attributes[3]) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(op, " with direction ", attributes[3]));
  }
  return absl::OkStatus();
}

}  // namespace

InferredTypes ShapeOfLinear(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  if (Rank(in[0]) < 1 || Rank(in[1]) != 2 || Last(in[0]) != in[1].shape[1]) {
    return Misfit("linear wants x (..,K) and w (O,K)", in);
  }
  return std::vector<Type>{WithLast(in[0], in[1].shape[0])};
}

InferredTypes ShapeOfLinearInputGrad(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  if (Rank(in[0]) < 1 || Rank(in[1]) != 2 || Last(in[0]) != in[1].shape[0]) {
    return Misfit("linear_input_grad wants dy (..,O) and w (O,K)", in);
  }
  return std::vector<Type>{WithLast(in[0], in[1].shape[1])};
}

InferredTypes ShapeOfLinearWeightGrad(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  if (Rank(in[0]) < 1 || Rank(in[1]) < 1 || Leading(in[0]) != Leading(in[1])) {
    return Misfit("linear_weight_grad wants dy (..,O) and x (..,K)", in);
  }
  return std::vector<Type>{F32({Last(in[0]), Last(in[1])})};
}

InferredTypes ShapeOfLinearBias(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xxx"));
  if (Rank(in[0]) < 1 || Rank(in[1]) != 2 || Last(in[0]) != in[1].shape[1] ||
      in[2] != Type{in[0].dtype, {in[1].shape[0]}}) {
    return Misfit("linear_bias wants x (..,K), w (O,K) and b (O)", in);
  }
  return std::vector<Type>{WithLast(in[0], in[1].shape[0])};
}

InferredTypes ShapeOfLinearResidual(InputTypes in, Attributes attributes) {
  const InferredTypes product = ShapeOfLinearBias(in.first(3), attributes);
  if (!product.ok() || in[3] != product->front()) {
    return Misfit("linear_residual wants x (..,K), w (O,K), b (O) and z (..,O)", in);
  }
  return product;
}

InferredTypes ShapeOfColumnSum(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  if (Rank(in[0]) < 1) return Misfit("column_sum wants dy (..,C)", in);
  return std::vector<Type>{F32({Last(in[0])})};
}

InferredTypes ShapeOfElementwise(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  if (in[0] != in[1]) return Misfit("the two inputs differ in shape", in);
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfUnary(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfCast(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  if (attributes[0] != 16 && attributes[0] != 32) {
    return absl::InvalidArgumentError(absl::StrCat("cast to ", attributes[0], " bits"));
  }
  return std::vector<Type>{{attributes[0] == 16 ? DType::kBF16 : DType::kF32, in[0].shape}};
}

InferredTypes ShapeOfConstant(InputTypes, Attributes) { return std::vector<Type>{F32({})}; }

InferredTypes ShapeOfLayerNorm(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xff"));
  if (Rank(in[0]) < 1 || in[1] != F32({Last(in[0])}) || in[2] != in[1]) {
    return Misfit("layer_norm wants x (..,C), gamma (C) and beta (C)", in);
  }
  const Type row = F32(Leading(in[0]));
  return std::vector<Type>{in[0], row, row};
}

InferredTypes ShapeOfLayerNormGrad(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xxfff"));
  if (Rank(in[0]) < 1 || in[0] != in[1] || in[2] != F32({Last(in[0])}) ||
      in[3] != F32(Leading(in[0])) || in[4] != in[3]) {
    return Misfit("layer_norm_grad wants dy (..,C), x (..,C), gamma (C), mean (..) and rstd (..)",
                  in);
  }
  return std::vector<Type>{in[1], in[2], in[2]};
}

InferredTypes ShapeOfAttention(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  SL_ASSIGN_OR_RETURN(const Heads heads, HeadsOf("attention", in[0], attributes));
  const Shape& shape = in[0].shape;
  return std::vector<Type>{WithLast(in[0], heads.queries * heads.size),
                           F32({shape[0], heads.queries, shape[1]})};
}

InferredTypes ShapeOfAttentionGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xxxf"));
  SL_ASSIGN_OR_RETURN(const std::vector<Type> forward, ShapeOfAttention({&in[1], 1}, attributes));
  if (in[0] != forward[0] || in[2] != forward[0] || in[3] != forward[1]) {
    return Misfit("attention_grad wants dy (B,T,HD), qkv (B,T,(H+2K)D), y (B,T,HD) and lse (B,H,T)",
                  in);
  }
  return std::vector<Type>{in[1]};
}

InferredTypes ShapeOfEmbedding(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "ix"));
  if (Rank(in[1]) != 2) return Misfit("embedding wants tokens (..) and table (V,C)", in);
  Shape shape = in[0].shape;
  shape.push_back(in[1].shape[1]);
  return std::vector<Type>{{in[1].dtype, std::move(shape)}};
}

InferredTypes ShapeOfEmbeddingGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "ix"));
  SL_ASSIGN_OR_RETURN(const int64_t rows, CountOf("embedding_grad", attributes[0], "rows", 1));
  if (Rank(in[1]) < 1 || Leading(in[1]) != in[0].shape) {
    return Misfit("embedding_grad wants tokens (..) and dy (..,C)", in);
  }
  return std::vector<Type>{F32({rows, Last(in[1])})};
}

InferredTypes ShapeOfPositionAdd(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  SL_ASSIGN_OR_RETURN(const int64_t first, FirstOf("position_add", attributes[0]));
  if (Rank(in[0]) != 3 || Rank(in[1]) != 2 || Last(in[1]) != Last(in[0])) {
    return Misfit("position_add wants x (B,T,C) and table (R,C)", in);
  }
  if (first + in[0].shape[1] > in[1].shape[0]) {
    return Misfit(
        absl::StrCat("position_add wants a table of at least ", first + in[0].shape[1], " rows"),
        in);
  }
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfPositionGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  SL_ASSIGN_OR_RETURN(const int64_t rows, CountOf("position_grad", attributes[0], "rows", 1));
  SL_ASSIGN_OR_RETURN(const int64_t first, FirstOf("position_grad", attributes[1]));
  if (Rank(in[0]) != 3) return Misfit("position_grad wants dy (B,T,C)", in);
  if (first + in[0].shape[1] > rows) {
    return Misfit(
        absl::StrCat("position_grad to ", rows, " rows wants ", rows - first, " positions at most"),
        in);
  }
  return std::vector<Type>{F32({rows, Last(in[0])})};
}

InferredTypes ShapeOfCrossEntropy(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xi"));
  if (Rank(in[0]) < 1 || Leading(in[0]) != in[1].shape) {
    return Misfit("cross_entropy wants logits (..,V) and target (..)", in);
  }
  return std::vector<Type>{F32({}), F32(in[1].shape)};
}

InferredTypes ShapeOfCrossEntropyGrad(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "fxif"));
  if (in[0] != F32({}) || Rank(in[1]) < 1 || Leading(in[1]) != in[2].shape ||
      in[3] != F32(in[2].shape)) {
    return Misfit("cross_entropy_grad wants dloss (), logits (..,V), target (..) and lse (..)", in);
  }
  return std::vector<Type>{in[1]};
}

InferredTypes ShapeOfLinearAdd(InputTypes in, Attributes attributes) {
  const InferredTypes product = ShapeOfLinear(in.first(2), attributes);
  if (!product.ok() || in[2] != product->front()) {
    return Misfit("linear_add wants x (..,K), w (O,K) and z (..,O)", in);
  }
  return product;
}

InferredTypes ShapeOfRmsNorm(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xf"));
  if (Rank(in[0]) < 1 || in[1] != F32({Last(in[0])})) {
    return Misfit("rms_norm wants x (..,C) and gamma (C)", in);
  }
  return std::vector<Type>{in[0], F32(Leading(in[0]))};
}

InferredTypes ShapeOfRmsNormGrad(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xxff"));
  if (Rank(in[0]) < 1 || in[0] != in[1] || in[2] != F32({Last(in[0])}) ||
      in[3] != F32(Leading(in[0]))) {
    return Misfit("rms_norm_grad wants dy (..,C), x (..,C), gamma (C) and rstd (..)", in);
  }
  return std::vector<Type>{in[1], in[2]};
}

InferredTypes ShapeOfHeadNorm(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xff"));
  SL_ASSIGN_OR_RETURN(const Heads heads, HeadsOf("head_norm", in[0], attributes));
  if (in[1] != F32({heads.size}) || in[2] != in[1]) {
    return Misfit("head_norm wants qkv (B,T,(H+2K)D), query gamma (D) and key gamma (D)", in);
  }
  const Shape& shape = in[0].shape;
  return std::vector<Type>{in[0], F32({shape[0], shape[1], heads.queries + heads.keys})};
}

InferredTypes ShapeOfHeadNormGrad(InputTypes in, Attributes attributes) {
  const InferredTypes forward = ShapeOfHeadNorm(in.subspan(1, 3), attributes);
  if (!forward.ok()) return forward;
  if (in[0] != in[1] || in[4] != forward->back()) {
    return Misfit(
        "head_norm_grad wants dy and qkv (B,T,(H+2K)D), two gammas (D) and rstd (B,T,H+K)", in);
  }
  return std::vector<Type>{in[1], in[2], in[3]};
}

InferredTypes ShapeOfRotary(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  SL_RETURN_IF_ERROR(CheckRotary("rotary", in[0], attributes));
  SL_RETURN_IF_ERROR(FirstOf("rotary", attributes[4]).status());
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfPackedRotary(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xi"));
  SL_RETURN_IF_ERROR(CheckRotary("packed_rotary", in[0], attributes));
  if (in[1].shape != Leading(in[0])) {
    return Misfit("packed_rotary wants qkv (B,T,(H+2K)D) and positions (B,T)", in);
  }
  return std::vector<Type>{in[0]};
}

InferredTypes ShapeOfSwiglu(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  if (Rank(in[0]) < 1 || Last(in[0]) % 2 != 0) return Misfit("swiglu wants x (..,2C)", in);
  return std::vector<Type>{WithLast(in[0], Last(in[0]) / 2)};
}

InferredTypes ShapeOfSwigluGrad(InputTypes in, Attributes attributes) {
  const InferredTypes forward = ShapeOfSwiglu(in.subspan(1), attributes);
  if (!forward.ok() || in[0] != forward->front()) {
    return Misfit("swiglu_grad wants dy (..,C) and x (..,2C)", in);
  }
  return std::vector<Type>{in[1]};
}

InferredTypes ShapeOfAttentionPast(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  SL_ASSIGN_OR_RETURN(const Heads heads, HeadsOf("attention_past", in[0], attributes));
  if (Rank(in[1]) != 3 || in[1].shape[0] != in[0].shape[0] || in[1].shape[1] < 1 ||
      Last(in[1]) != 2 * heads.keys * heads.size) {
    return Misfit("attention_past wants qkv (B,T,(H+2K)D) and past (B,P,2KD)", in);
  }
  return ShapeOfAttention(in.first(1), attributes);
}

InferredTypes ShapeOfAttentionPastGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xxxxf"));
  SL_ASSIGN_OR_RETURN(const std::vector<Type> forward,
                      ShapeOfAttentionPast(in.subspan(1, 2), attributes));
  if (in[0] != forward[0] || in[3] != forward[0] || in[4] != forward[1]) {
    return Misfit(
        "attention_past_grad wants dy (B,T,HD), qkv (B,T,(H+2K)D), past (B,P,2KD), y (B,T,HD) and "
        "lse (B,H,T)",
        in);
  }
  return std::vector<Type>{in[1], in[2]};
}

InferredTypes ShapeOfCrossAttention(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  const auto heads = static_cast<int64_t>(attributes[0]),
             keys = static_cast<int64_t>(attributes[1]);
  const bool sized = Rank(in[0]) == 3 && Rank(in[1]) == 3 && heads >= 1 && keys >= 1 &&
                     heads % keys == 0 && Last(in[0]) % heads == 0;
  if (!sized || in[1].shape[0] != in[0].shape[0] || in[1].shape[1] < 1 ||
      Last(in[1]) != 2 * keys * (Last(in[0]) / heads)) {
    return Misfit("cross_attention wants q (B,T,HD) and kv (B,S,2KD)", in);
  }
  const std::vector<int64_t>& shape = in[0].shape;
  return std::vector<Type>{in[0], {DType::kF32, {shape[0], heads, shape[1]}}};
}

InferredTypes ShapeOfCrossAttentionGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xxxxf"));
  SL_ASSIGN_OR_RETURN(const std::vector<Type> forward,
                      ShapeOfCrossAttention(in.subspan(1, 2), attributes));
  if (in[0] != forward[0] || in[3] != forward[0] || in[4] != forward[1]) {
    return Misfit(
        "cross_attention_grad wants dy (B,T,HD), q (B,T,HD), kv (B,S,2KD), y (B,T,HD) and "
        "lse (B,H,T)",
        in);
  }
  return std::vector<Type>{in[1], in[2]};
}

InferredTypes ShapeOfPackedAttention(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xi"));
  const Type& qkv = in[0];
  if (Rank(qkv) != 3 || in[1].shape != Leading(qkv)) {
    return Misfit("packed_attention wants qkv (B,T,(H+2K)D) and positions (B,T)", in);
  }
  return ShapeOfAttention(in.first(1), attributes);
}

InferredTypes ShapeOfPackedAttentionGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xxixf"));
  SL_ASSIGN_OR_RETURN(const std::vector<Type> forward,
                      ShapeOfPackedAttention(in.subspan(1, 2), attributes));
  if (in[0] != forward[0] || in[3] != forward[0] || in[4] != forward[1]) {
    return Misfit(
        "packed_attention_grad wants dy (B,T,HD), qkv (B,T,(H+2K)D), positions (B,T), y (B,T,HD) "
        "and lse (B,H,T)",
        in);
  }
  return std::vector<Type>{in[1]};
}

InferredTypes ShapeOfPackKeys(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  SL_ASSIGN_OR_RETURN(const Heads heads, HeadsOf("pack_keys", in[0], attributes));
  return std::vector<Type>{WithLast(in[0], 2 * heads.keys * heads.size)};
}

InferredTypes ShapeOfPackKeysGrad(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  SL_ASSIGN_OR_RETURN(const int64_t queries, CountOf("pack_keys_grad", attributes[0], "heads", 1));
  SL_ASSIGN_OR_RETURN(const int64_t keys, CountOf("pack_keys_grad", attributes[1], "heads", 1));
  if (Rank(in[0]) != 3 || Last(in[0]) % (2 * keys) != 0) {
    return Misfit(absl::StrCat("pack_keys_grad wants dy (B,T,2KD), K = ", keys), in);
  }
  const Type dqkv = WithLast(in[0], Last(in[0]) / (2 * keys) * (queries + 2 * keys));
  SL_RETURN_IF_ERROR(HeadsOf("pack_keys_grad", dqkv, attributes).status());
  return std::vector<Type>{dqkv};
}

InferredTypes ShapeOfAppendPositions(InputTypes in, Attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "xx"));
  if (Rank(in[0]) != 3 || Rank(in[1]) != 3 || in[0].shape[0] != in[1].shape[0] ||
      Last(in[0]) != Last(in[1])) {
    return Misfit("append_positions wants a (B,P,C) and b (B,T,C)", in);
  }
  Type all = in[0];
  all.shape[1] += in[1].shape[1];
  return std::vector<Type>{std::move(all)};
}

InferredTypes ShapeOfTakePositions(InputTypes in, Attributes attributes) {
  SL_RETURN_IF_ERROR(CheckDTypes(in, "x"));
  SL_ASSIGN_OR_RETURN(const int64_t first, FirstOf("take_positions", attributes[0]));
  SL_ASSIGN_OR_RETURN(const int64_t count,
                      CountOf("take_positions", attributes[1], "positions", 1));
  if (Rank(in[0]) != 3 || first + count > in[0].shape[1]) {
    return Misfit(absl::StrCat("take_positions wants x (B,T,C), T at least ", first + count), in);
  }
  Type some = in[0];
  some.shape[1] = count;
  return std::vector<Type>{std::move(some)};
}

}  // namespace stringline
