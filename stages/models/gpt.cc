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

}  // namespace

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

ValueId GptStage::EndWeight(ValueId x, const std::string& name) {
  const float stddev = kStddev / std::sqrt(2.0f * static_cast<float>(shape_.layers));
  return Matrix(name + ".weight", shape_.width, builder_.TypeOf(x).shape.back(), stddev);
}

ValueId GptStage::EndBranch(ValueId x, const std::string& name, ValueId residual,
                            const std::string& result) {
  const ValueId weight = EndWeight(x, name);
  const ValueId bias = Bias(name + ".bias", shape_.width);
  return builder_.Append(Op::kLinearResidual, {x, weight, bias, residual}, {}, result);
}

ValueId GptStage::Embed() { return EmbedAt(0, shape_.context, ""); }

ValueId GptStage::EmbedAt(int64_t first, int64_t positions, const std::string& name) {
  const ValueId x = EmbedTokens(shape_.vocabulary, kStddev, first, name);
  const ValueId position = Matrix(name + "position.weight", positions, shape_.width, kStddev);
  return AddPositions(x, position);
}

ValueId GptStage::Layer(ValueId x, int layer) {
  const std::string name = absl::StrCat("layers.", layer, ".");
  const int64_t width = shape_.width;
  if (const int from = shape_.SkipInto(layer); from >= 0) {
    const ValueId skipped = Carried(from + 1);
    const ValueId weight = EndWeight(skipped, name + "skip");
    x = builder_.Append(Op::kLinearAdd, {skipped, weight, x}, {}, name + "skip");
  }
  ValueId y = Norm(x, name + "norm1");
  y = Linear(y, name + "attention.qkv", 3 * width);
  const double heads = shape_.heads;
  y = Attention(y, heads, heads, name + "attention");
  x = EndBranch(y, name + "attention.projection", x, name + "middle");
  return MlpHalf(x, name);
}

ValueId GptStage::MlpHalf(ValueId x, const std::string& name) {
  ValueId y = Norm(x, name + "norm2");
  y = Linear(y, name + "mlp.up", 4 * int64_t{shape_.width});
  y = builder_.Append(Op::kGelu, {y}, {}, name + "mlp.gelu");
  return EndBranch(y, name + "mlp.down", x, name + "output");
}

void GptStage::Loss(ValueId x) {
  HeadLoss(Norm(x, "norm"), shape_.vocabulary, kStddev, shape_.tied);
}

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
  const int64_t skips = shape.skips ? shape.layers / 2 * width * width : 0;
  return shape.layers * layer + skips + (tables + 2) * width;
}

// Per token: a product with an (n, k) matrix takes 2 n k. A layer has 12 width^2 of weights (query,
// key, value, projection, and two of 4 width^2), and attention takes two products of the context's
// length. The embedding only adds. The products of skips are spread over all layers.
ModelWork WorkOf(const GptShape& shape) {
  const double width = shape.width, tokens = static_cast<double>(shape.tokens());
  ModelWork work;
  work.embedding = tokens * width;
  work.layer = tokens * (24 * width * width + 4 * shape.context * width);
  const int skips = shape.skips ? shape.layers / 2 : 0;
  if (skips > 0) work.layer += tokens * 2 * width * width * skips / shape.layers;
  work.head = tokens * 2 * width * shape.vocabulary;
  return work;
}

absl::StatusOr<std::vector<StageProgram>> BuildGptStages(const GptShape& shape,
                                                         const std::vector<int>& layers_per_stage,
                                                         const BuildOptions& options) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  SL_RETURN_IF_ERROR(CheckNotShared(options.expert_ranks));
  SL_RETURN_IF_ERROR(CheckSlices(shape.context, options));
  std::vector<PartValue> values = ValuesInARow(shape.layers);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const int from = shape.SkipInto(layer);
    if (from >= 0) values[from + 1].read_in.push_back(layer + 1);
  }
  return BuildPrograms(
      shape.layers, layers_per_stage, options, values,
      [&](const SlicePlace& slice) { return std::make_unique<GptStage>(shape, options, slice); });
}

}  // namespace stringline
