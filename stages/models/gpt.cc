#include "stages/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/builder.h"
#include "stages/layers.h"
#include "stages/split.h"

namespace stringline {
namespace {

constexpr float kStddev = 0.02f;
constexpr double kEpsilon = 1e-5;

// Builds one stage's forward graph.
class GptStage {
 public:
  explicit GptStage(const GptShape& shape) : shape_(shape) {}

  ValueId Embed();
  ValueId Receive();
  ValueId Layer(ValueId x, int layer);
  void Loss(ValueId x);
  void Send(ValueId x) { builder_.Output(Role::kOutput, 0, x); }

  ForwardStage Finish(bool first, bool last) && {
    return {first, last, std::move(params_), builder_.Finish()};
  }

 private:
  Type Activation() const {
    return {DType::kF32, {shape_.microbatch, shape_.context, shape_.width}};
  }
  Type Tokens() const { return {DType::kI32, {shape_.microbatch, shape_.context}}; }

  ValueId AddParam(Param param);
  ValueId Matrix(const std::string& name, int64_t rows, int64_t columns, float stddev = kStddev);
  ValueId Vector(const std::string& name, int64_t size, Init init);
  ValueId Norm(ValueId x, const std::string& name);
  ValueId Linear(ValueId x, const std::string& name, int64_t out);
  // The product that ends a residual branch, and the sum with what went around it.
  ValueId EndBranch(ValueId x, const std::string& name, ValueId residual,
                    const std::string& result);

  const GptShape& shape_;
  Builder builder_;
  std::vector<Param> params_;
};

ValueId GptStage::AddParam(Param param) {
  const int index = static_cast<int>(params_.size());
  params_.push_back(std::move(param));
  return builder_.Input(Role::kParam, index, params_.back().type, params_.back().name);
}

ValueId GptStage::Matrix(const std::string& name, int64_t rows, int64_t columns, float stddev) {
  Param param{name, {DType::kF32, {rows, columns}}};
  param.init = Init::kNormal;
  param.stddev = stddev;
  param.decay = true;
  return AddParam(std::move(param));
}

ValueId GptStage::Vector(const std::string& name, int64_t size, Init init) {
  Param param{name, {DType::kF32, {size}}};
  param.init = init;
  return AddParam(std::move(param));
}

ValueId GptStage::Norm(ValueId x, const std::string& name) {
  const ValueId gamma = Vector(name + ".weight", shape_.width, Init::kOnes);
  const ValueId beta = Vector(name + ".bias", shape_.width, Init::kZeros);
  return builder_.AppendAll(Op::kLayerNorm, {x, gamma, beta}, {kEpsilon}, name)[0];
}

ValueId GptStage::Linear(ValueId x, const std::string& name, int64_t out) {
  const ValueId weight = Matrix(name + ".weight", out, builder_.TypeOf(x).shape.back());
  const ValueId bias = Vector(name + ".bias", out, Init::kZeros);
  return builder_.Append(Op::kLinearBias, {x, weight, bias}, {}, name);
}

ValueId GptStage::EndBranch(ValueId x, const std::string& name, ValueId residual,
                            const std::string& result) {
  const float stddev = kStddev / std::sqrt(2.0f * static_cast<float>(shape_.layers));
  const int64_t in = builder_.TypeOf(x).shape.back();
  const ValueId weight = Matrix(name + ".weight", shape_.width, in, stddev);
  const ValueId bias = Vector(name + ".bias", shape_.width, Init::kZeros);
  return builder_.Append(Op::kLinearResidual, {x, weight, bias, residual}, {}, result);
}

ValueId GptStage::Embed() {
  const ValueId tokens = builder_.Input(Role::kInput, 0, Tokens(), "tokens");
  const ValueId table = Matrix("embedding.weight", shape_.vocabulary, shape_.width);
  const ValueId position = Matrix("position.weight", shape_.context, shape_.width);
  const ValueId x = builder_.Append(Op::kEmbedding, {tokens, table}, {}, "embedding");
  return builder_.Append(Op::kPositionAdd, {x, position}, {}, "position");
}

ValueId GptStage::Receive() { return builder_.Input(Role::kInput, 0, Activation(), "x"); }

ValueId GptStage::Layer(ValueId x, int layer) {
  const std::string name = absl::StrCat("layers.", layer, ".");
  const int64_t width = shape_.width;
  ValueId y = Norm(x, name + "norm1");
  y = Linear(y, name + "attention.qkv", 3 * width);
  const double heads = shape_.heads;
  y = builder_.AppendAll(Op::kAttention, {y}, {heads, heads}, name + "attention")[0];
  x = EndBranch(y, name + "attention.projection", x, name + "middle");
  y = Norm(x, name + "norm2");
  y = Linear(y, name + "mlp.up", 4 * width);
  y = builder_.Append(Op::kGelu, {y}, {}, name + "mlp.gelu");
  return EndBranch(y, name + "mlp.down", x, name + "output");
}

void GptStage::Loss(ValueId x) {
  const ValueId y = Norm(x, "norm");
  const ValueId head = Matrix("head.weight", shape_.vocabulary, shape_.width);
  params_.back().eager = true;  // its gradient needs the logits' gradient, too large to stash
  const ValueId logits = builder_.Append(Op::kLinear, {y, head}, {}, "logits");
  const ValueId target = builder_.Input(Role::kTarget, 0, Tokens(), "target");
  builder_.Output(Role::kLoss, 0,
                  builder_.AppendAll(Op::kCrossEntropy, {logits, target}, {}, "loss")[0]);
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
  return shape.layers * layer + (2 * int64_t{shape.vocabulary} + shape.context + 2) * width;
}

// Per token: a product with an (n, k) matrix takes 2 n k. A layer has 12 width^2 of weights (query,
// key, value, projection, and two of 4 width^2), and attention takes two products of the context's
// length. The embedding only adds.
GptWork WorkOf(const GptShape& shape) {
  const double width = shape.width, tokens = static_cast<double>(shape.tokens());
  GptWork work;
  work.embedding = tokens * width;
  work.layer = tokens * (24 * width * width + 4 * shape.context * width);
  work.head = tokens * 2 * width * shape.vocabulary;
  return work;
}

absl::StatusOr<std::vector<StageProgram>> BuildGptStages(const GptShape& shape,
                                                         const std::vector<int>& layers_per_stage) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  SL_RETURN_IF_ERROR(CheckLayers(shape.layers, layers_per_stage));
  std::vector<StageProgram> programs;
  int layer = 0;
  for (size_t s = 0; s < layers_per_stage.size(); ++s) {
    const bool first = s == 0, last = s + 1 == layers_per_stage.size();
    GptStage stage(shape);
    ValueId x = first ? stage.Embed() : stage.Receive();
    for (int i = 0; i < layers_per_stage[s]; ++i) x = stage.Layer(x, layer++);
    if (last) {
      stage.Loss(x);
    } else {
      stage.Send(x);
    }
    SL_ASSIGN_OR_RETURN(StageProgram program,
                        MakeStageProgram(std::move(stage).Finish(first, last)));
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace stringline
