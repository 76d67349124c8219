#include "stages/models/decoder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/models/moe.h"

namespace stringline {
namespace {

int64_t DenseLayers(const DecoderShape& shape) {
  return shape.moe.experts == 0 ? shape.layers : std::min(shape.layers, shape.moe.first_dense);
}

}  // namespace

ValueId DecoderStage::Norm(ValueId x, const std::string& name) {
  const ValueId gamma = Vector(name + ".weight", shape_.width, Init::kOnes);
  return builder_.AppendAll(Op::kRmsNorm, {x, gamma}, {shape_.norm_epsilon}, name)[0];
}

ValueId DecoderStage::Linear(ValueId x, const std::string& name, int64_t out) {
  const Type& in = builder_.TypeOf(x);
  const ValueId weight = Matrix(name + ".weight", {in.dtype, {out, in.shape.back()}},
                                static_cast<float>(shape_.init_stddev));
  return builder_.Append(Op::kLinear, {x, weight}, {}, name);
}

float DecoderStage::EndStddev() const {
  return static_cast<float>(shape_.init_stddev / std::sqrt(2.0 * shape_.layers));
}

ValueId DecoderStage::EndBranch(ValueId x, const std::string& name, ValueId residual,
                                const std::string& result) {
  const int64_t in = builder_.TypeOf(x).shape.back();
  const ValueId weight = Matrix(name + ".weight", shape_.width, in, EndStddev());
  return builder_.Append(Op::kLinearAdd, {x, weight, residual}, {}, result);
}

ValueId DecoderStage::Embed() {
  return EmbedTokens(shape_.vocabulary, static_cast<float>(shape_.init_stddev));
}

ValueId DecoderStage::Layer(ValueId x, int layer) {
  const std::string name = absl::StrCat("layers.", layer, ".");
  return MlpHalf(AttentionHalf(x, name), layer, name);
}

ValueId DecoderStage::AttentionHalf(ValueId x, const std::string& name) {
  const double heads = shape_.heads, kv_heads = shape_.kv_heads;
  const int64_t packed = shape_.packed_heads() * shape_.head_dim;
  const std::string attention = name + "attention";
  ValueId y = Norm(x, name + "norm1");
  if (shape_.qkv_bias) {
    const ValueId weight = Matrix(attention + ".qkv.weight", packed, shape_.width,
                                  static_cast<float>(shape_.init_stddev));
    const ValueId bias = Bias(attention + ".qkv.bias", packed);
    y = builder_.Append(Op::kLinearBias, {y, weight, bias}, {}, attention + ".qkv");
  } else {
    y = Linear(y, attention + ".qkv", packed);
  }
  if (shape_.qk_norm) {
    const ValueId query = Vector(attention + ".query_norm.weight", shape_.head_dim, Init::kOnes);
    const ValueId key = Vector(attention + ".key_norm.weight", shape_.head_dim, Init::kOnes);
    y = builder_.AppendAll(Op::kHeadNorm, {y, query, key}, {heads, kv_heads, shape_.norm_epsilon},
                           attention + ".head_norm")[0];
  }
  y = Rotary(y, heads, kv_heads, shape_.rope_theta, attention + ".rotary");
  y = Attention(y, heads, kv_heads, attention);
  return EndBranch(y, attention + ".projection", x, name + "middle");
}

ValueId DecoderStage::MlpHalf(ValueId x, int, const std::string& name) {
  const ValueId y = Norm(x, name + "norm2");
  return Mlp(y, name + "mlp", shape_.hidden, x, name + "output");
}

ValueId DecoderStage::Mlp(ValueId x, const std::string& name, int64_t hidden, ValueId residual,
                          const std::string& result) {
  ValueId y = Linear(x, name + ".gate_up", 2 * hidden);
  y = builder_.Append(Op::kSwiglu, {y}, {}, name + ".swiglu");
  return EndBranch(y, name + ".down", residual, result);
}

void DecoderStage::Loss(ValueId x) {
  HeadLoss(Norm(x, "norm"), shape_.vocabulary, static_cast<float>(shape_.init_stddev), shape_.tied);
}

absl::Status CheckShape(const DecoderShape& shape) {
  const std::pair<const char*, int> sizes[] = {
      {"layers", shape.layers},
      {"width", shape.width},
      {"heads", shape.heads},
      {"context", shape.context},
      {"vocabulary", shape.vocabulary},
      {"microbatch", shape.microbatch},
      {"kv_heads", shape.kv_heads},
      {"head_dim", shape.head_dim},
      {"hidden", DenseLayers(shape) == 0 ? 1 : shape.hidden}};
  for (const auto& [name, size] : sizes) {
    if (size >= 1 && size <= 1 << 20) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a model with ", name, " ", size, ": not in 1 .. ", 1 << 20));
  }
  if (shape.heads % shape.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(shape.heads, " heads of queries do not share ",
                                                   shape.kv_heads, " of keys and values"));
  }
  if (shape.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads of ", shape.head_dim, " channels cannot be rotated in pairs"));
  }
  if (!(shape.rope_theta >= 1) || !(shape.norm_epsilon > 0) || !(shape.init_stddev > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model with theta ", shape.rope_theta, ", epsilon ", shape.norm_epsilon,
                     " and first values of deviation ", shape.init_stddev));
  }
  SL_RETURN_IF_ERROR(CheckMoe(shape));
  const int64_t widest = std::max({int64_t{shape.width}, shape.packed_heads() * shape.head_dim,
                                   2 * int64_t{shape.hidden}, int64_t{shape.vocabulary},
                                   2 * int64_t{shape.moe.shared_hidden}});
  if (shape.tokens() > (int64_t{1} << 31) / widest) {
    return absl::InvalidArgumentError(
        absl::StrCat("a microbatch of ", shape.microbatch, " sequences of ", shape.context,
                     " tokens has an activation of more than 2^31 elements, ", widest, " a token"));
  }
  return absl::OkStatus();
}

int64_t CountParams(const DecoderShape& shape) {
  const int64_t width = shape.width, head = shape.head_dim;
  const int64_t packed = shape.packed_heads() * head;
  const int64_t attention = packed * (width + (shape.qkv_bias ? 1 : 0)) +
                            shape.heads * head * width + (shape.qk_norm ? 2 * head : 0);
  const int64_t dense = DenseLayers(shape);
  const int64_t mlps =
      dense * 3 * int64_t{shape.hidden} * width + (shape.layers - dense) * CountMoeParams(shape);
  return shape.layers * (attention + 2 * width) + mlps +
         (shape.tied ? 1 : 2) * int64_t{shape.vocabulary} * width + width;
}

// Per token: a product with an (n, k) matrix takes 2 n k, and attention two products of the
// context's length. The embedding only adds.
ModelWork WorkOf(const DecoderShape& shape) {
  const double width = shape.width, tokens = static_cast<double>(shape.tokens());
  const double mixed = static_cast<double>(shape.heads) * shape.head_dim;
  const double packed = static_cast<double>(shape.packed_heads() * shape.head_dim);
  ModelWork work;
  work.embedding = tokens * width;
  const double dense = static_cast<double>(DenseLayers(shape)) / shape.layers;
  const double mlp = dense * 6 * width * shape.hidden + (1 - dense) * MoeWorkPerToken(shape);
  work.layer = tokens * (2 * width * (packed + mixed) + mlp + 4 * shape.context * mixed);
  work.head = tokens * 2 * width * shape.vocabulary;
  return work;
}

absl::StatusOr<std::vector<StageProgram>> BuildDecoderStages(
    const DecoderShape& shape, const std::vector<int>& layers_per_stage,
    const BuildOptions& options) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  SL_RETURN_IF_ERROR(CheckExpertRanks(shape, options.expert_ranks));
  SL_RETURN_IF_ERROR(CheckSlices(shape.context, options));
  DecoderShape of_slice = shape;
  of_slice.context /= options.slices;
  return BuildPrograms(shape.layers, layers_per_stage, options, ValuesInARow(shape.layers),
                       [&](const SlicePlace& slice) -> std::unique_ptr<StageBuilder> {
                         if (shape.moe.experts == 0) {
                           return std::make_unique<DecoderStage>(of_slice, options, slice);
                         }
                         return std::make_unique<MoeStage>(of_slice, options, slice);
                       });
}

}  // namespace stringline
