#include "stages/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr float kStddev = 0.02f;
constexpr double kEpsilon = 1e-5;

class GptStage : public StageBuilder {
 public:
  GptStage(const GptShape& shape, const BuildOptions& options, const SlicePlace& slice)
      : StageBuilder(shape.microbatch, shape.context / slice.of, shape.width, options, slice),
        shape_(shape) {}

  ValueId Embed() override;
  ValueId Layer(ValueId x, int layer) override;
  void Loss(ValueId x) override;

 private:
  ValueId Norm(ValueId x, const std::string& name);
  ValueId Linear(ValueId x, const std::string& name, int64_t out);
  // The product at the end of a residual branch, and the sum with the residual.
  ValueId EndBranch(ValueId x, const std::string& name, ValueId residual,
                    const std::string& result);

  const GptShape& shape_;
};

ValueId GptStage::Norm(ValueId x, const std::string& name) {
  const ValueId gamma = Vector(name + ".weight", shape_.width, Init::kOnes);
  const ValueId beta = Vector(name + ".bias", shape_.width, Init::kZeros);
  return builder_.AppendAll(Op::kLayerNorm, {x, gamma, beta}, {kEpsilon}, name)[0];
}

ValueId GptStage::Linear(ValueId x, const std::string& name, int64_t out) {
  const ValueId weight = Matrix(name + ".weight", out, builder_.TypeOf(x).shape.back(), kStddev);
  const ValueId bias = Bias(name + ".bias", out);
  return builder_.Append(Op::kLinearBias, {x, weight, bias}, {}, name);
}

ValueId GptStage::EndBranch(ValueId x, const std::string& name, ValueId residual,
                            const std::string& result) {
  const float stddev = kStddev / std::sqrt(2.0f * static_cast<float>(shape_.layers));
  const int64_t in = builder_.TypeOf(x).shape.back();
  const ValueId weight = Matrix(name + ".weight", shape_.width, in, stddev);
  const ValueId bias = Bias(name + ".bias", shape_.width);
  return builder_.Append(Op::kLinearResidual, {x, weight, bias, residual}, {}, result);
}

ValueId GptStage::Embed() {
  const ValueId x = EmbedTokens(shape_.vocabulary, kStddev);
  const ValueId position = Matrix("position.weight", shape_.context, shape_.width, kStddev);
  return AddPositions(x, position);
}

ValueId GptStage::Layer(ValueId x, int layer) {
  const std::string name = absl::StrCat("layers.", layer, ".");
  const int64_t width = shape_.width;
  ValueId y = Norm(x, name + "norm1");
  y = Linear(y, name + "attention.qkv", 3 * width);
  const double heads = shape_.heads;
  y = Attention(y, heads, heads, name + "attention");
  x = EndBranch(y, name + "attention.projection", x, name + "middle");
  y = Norm(x, name + "norm2");
  y = Linear(y, name + "mlp.up", 4 * width);
  y = builder_.Append(Op::kGelu, {y}, {}, name + "mlp.gelu");
  return EndBranch(y, name + "mlp.down", x, name + "output");
}

void GptStage::Loss(ValueId x) {
  HeadLoss(Norm(x, "norm"), shape_.vocabulary, kStddev, shape_.tied);
}

}  // namespace

absl::Status CheckShape(const GptShape& shape) {
  const std::pair<const char*, int> sizes[] = {
      {"layers", shape.layers},         {"width", shape.width},
      {"heads", shape.heads},           {"context", shape.context},
      {"vocabulary", shape.vocabulary}, {"microbatch", shape.microbatch}};
  for (const auto& [name, size] : sizes) {
    if (size >= 1 && size <= 1 << 20) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a model with ", name, " ", size, ": not in 1 .. ", 1 << 20));
  }
  if (shape.width % shape.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a width of ", shape.width, " does not divide into ", shape.heads, " heads"));
  }
  const int64_t widest = std::max<int64_t>(4 * int64_t{shape.width}, shape.vocabulary);
  if (shape.tokens() > (int64_t{1} << 31) / widest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a microbatch of ", shape.microbatch, " sequences of ", shape.context, " tokens at width ",
        shape.width, " has an activation of more than 2^31 elements"));
  }
  return absl::OkStatus();
}

int64_t CountParams(const GptShape& shape) {
  const int64_t width = shape.width;
  const int64_t layer = 12 * width * width + 13 * width;
  const int64_t tables = (shape.tied ? 1 : 2) * int64_t{shape.vocabulary} + shape.context;
  return shape.layers * layer + (tables + 2) * width;
}

// Per token: a product with an (n, k) matrix takes 2 n k. A layer has 12 width^2 of weights (query,
// key, value, projection, and two of 4 width^2), and attention takes two products of the context's
// length. The embedding only adds.
ModelWork WorkOf(const GptShape& shape) {
  const double width = shape.width, tokens = static_cast<double>(shape.tokens());
  ModelWork work;
  work.embedding = tokens * width;
  work.layer = tokens * (24 * width * width + 4 * shape.context * width);
  work.head = tokens * 2 * width * shape.vocabulary;
  return work;
}

absl::StatusOr<std::vector<StageProgram>> BuildGptStages(const GptShape& shape,
                                                         const std::vector<int>& layers_per_stage,
                                                         const BuildOptions& options) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  SL_RETURN_IF_ERROR(CheckNotShared(options.expert_ranks));
  SL_RETURN_IF_ERROR(CheckSlices(shape.context, options));
  return BuildPrograms(shape.layers, layers_per_stage, options, [&](const SlicePlace& slice) {
    return std::make_unique<GptStage>(shape, options, slice);
  });
}

}  // namespace stringline
