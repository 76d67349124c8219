// A layer with an op of ours becomes that op where its operands are the op's; otherwise it is
// written out.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "executor/torch_model/op_rules.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Sizes = TensorNodes::Sizes;
using Made = TensorNodes::Made;

bool IsParamOf(const TorchOperands& in, const std::string& value, size_t dimensions) {
  const std::string param = in.graph().Strip(value);
  return in.graph().IsParam(param) && in.graph().Sizes(param).size() == dimensions;
}

Made TakeParam(TorchOperands& in, const TorchNode& node, const std::string& value, ParamUse use,
               bool transposed = false) {
  return in.nodes().params().Take({in.graph().Strip(value)}, use, node.module, transposed);
}

Made AddIfGiven(TorchOperands& in, ValueId x, std::optional<ValueId> bias) {
  return bias ? in.tensors().Add(x, *bias) : Made(x);
}
Made MultiplyIfGiven(TorchOperands& in, ValueId x, std::optional<ValueId> weight) {
  return weight ? in.tensors().Multiply(x, *weight) : Made(x);
}

// x w', w a parameter (out, in) or (in, out).
Made Linear(TorchOperands& in, const TorchNode& node, const TorchLinear& linear, size_t output) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(linear.input));
  const ParamUse use = in.GivesLogits(node) ? ParamUse::kHead : ParamUse::kProduct;
  SL_ASSIGN_OR_RETURN(const ValueId weight,
                      TakeParam(in, node, linear.weight, use, linear.transposed));
  if (linear.bias.empty()) {
    SL_ASSIGN_OR_RETURN(x, in.tensors().Append(Op::kLinear, {x, weight}));
  } else {
    SL_ASSIGN_OR_RETURN(const ValueId bias, TakeParam(in, node, linear.bias, ParamUse::kBias));
    SL_ASSIGN_OR_RETURN(x, in.tensors().Append(Op::kLinearBias, {x, weight, bias}));
  }
  return in.tensors().Reshape(x, in.graph().Sizes(node.outputs[output]));
}

// Values of one dimension are a row on the left and a column on the right.
Made MatMul(TorchOperands& in, const TorchNode& node, size_t output, ValueId a, ValueId b) {
  TensorNodes& tensors = in.tensors();
  if (tensors.SizesOf(a).size() == 1) {
    SL_ASSIGN_OR_RETURN(a, tensors.Reshape(a, {1, tensors.SizesOf(a)[0]}));
  }
  if (tensors.SizesOf(b).size() == 1) {
    SL_ASSIGN_OR_RETURN(b, tensors.Reshape(b, {tensors.SizesOf(b)[0], 1}));
  }
  if (tensors.SizesOf(a).empty() || tensors.SizesOf(b).empty()) return in.graph().Unknown(node);
  SL_ASSIGN_OR_RETURN(a, tensors.MatMul(a, b));
  return tensors.Reshape(a, in.graph().Sizes(node.outputs[output]));
}

Made MatrixProduct(TorchOperands& in, const TorchNode& node, size_t output) {
  const std::optional<TorchLinear> linear = in.graph().MatchLinear(node.outputs[output]);
  if (linear && linear->node == &node) return Linear(in, node, *linear, output);
  if (node.op == "linear") {
    SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("input")));
    SL_ASSIGN_OR_RETURN(ValueId weight, in.Value(node.Tensor("weight")));
    SL_ASSIGN_OR_RETURN(const auto bias, in.Optional(node, "bias"));
    if (in.tensors().SizesOf(weight).size() != 2) return in.graph().Unknown(node);
    SL_ASSIGN_OR_RETURN(weight, in.tensors().Swap(weight, 0, 1));
    SL_ASSIGN_OR_RETURN(const ValueId y, MatMul(in, node, output, x, weight));
    return AddIfGiven(in, y, bias);
  }
  const bool added = node.op == "addmm" || node.op == "baddbmm";
  const char* const first = node.op == "addmm" ? "mat1" : added ? "batch1" : "self";
  const char* const second = node.op == "matmul"    ? "other"
                             : node.op == "baddbmm" ? "batch2"
                                                    : "mat2";
  SL_ASSIGN_OR_RETURN(const ValueId a, in.Value(node.Tensor(first)));
  SL_ASSIGN_OR_RETURN(const ValueId b, in.Value(node.Tensor(second)));
  SL_ASSIGN_OR_RETURN(ValueId y, MatMul(in, node, output, a, b));
  if (!added) return y;
  SL_ASSIGN_OR_RETURN(y, in.tensors().Scale(y, node.Number("alpha", 1)));
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("self")));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Scale(x, node.Number("beta", 1)));
  return in.tensors().Add(x, y);
}

Made Embedding(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  const std::string indices = in.graph().Strip(node.Tensor("indices"));
  if (!IsParamOf(in, node.Tensor("weight"), 2)) {
    return in.graph().Unknown(node, "its table is no parameter");
  }
  SL_ASSIGN_OR_RETURN(const ValueId table,
                      TakeParam(in, node, node.Tensor("weight"), ParamUse::kTable));
  ValueId at = kNone;
  if (in.nodes().constants().Is(indices)) {
    SL_ASSIGN_OR_RETURN(at, in.NumbersOf(indices, true));
  } else {
    SL_ASSIGN_OR_RETURN(at, in.Indices(node.Tensor("indices")));
  }
  const double padding = node.Number("padding_idx", -1);
  if (padding == -1) return in.tensors().Append(Op::kEmbedding, {at, table});
  return in.tensors().Append(Op::kPaddedEmbedding, {at, table}, {padding});
}

// The last dimensions, as many as the op normalises.
Sizes LastDims(const TorchNode& node, const Sizes& sizes) {
  Sizes dims(std::min(sizes.size(), node.Ints("normalized_shape").size()));
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(sizes.size() - dims.size()));
  return dims;
}

Made LayerNorm(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("input")));
  const double epsilon = node.Number("eps", 1e-5);
  const std::string weight = node.Tensor("weight"), bias = node.Tensor("bias");
  if (!weight.empty() && !bias.empty() && IsParamOf(in, weight, 1) && IsParamOf(in, bias, 1)) {
    SL_ASSIGN_OR_RETURN(const ValueId gamma, TakeParam(in, node, weight, ParamUse::kNorm));
    SL_ASSIGN_OR_RETURN(const ValueId beta, TakeParam(in, node, bias, ParamUse::kBias));
    return in.tensors().Append(Op::kLayerNorm, {x, gamma, beta}, {epsilon});
  }
  const Sizes dims = LastDims(node, in.tensors().SizesOf(x));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Normalised(x, dims, epsilon, /*centre=*/true));
  SL_ASSIGN_OR_RETURN(const auto gamma, in.Optional(node, "weight"));
  SL_ASSIGN_OR_RETURN(const auto beta, in.Optional(node, "bias"));
  SL_ASSIGN_OR_RETURN(x, MultiplyIfGiven(in, x, gamma));
  return AddIfGiven(in, x, beta);
}

Made RmsNorm(TorchOperands& in, const TorchNode& node, size_t output) {
  if (const auto norm = in.graph().MatchRmsNorm(node.outputs[output])) {
    SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(norm->input));
    SL_ASSIGN_OR_RETURN(const ValueId gamma, TakeParam(in, node, norm->gamma, ParamUse::kNorm));
    return in.tensors().Append(Op::kRmsNorm, {x, gamma}, {norm->epsilon});
  }
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("input")));
  const Sizes dims = LastDims(node, in.tensors().SizesOf(x));
  const double epsilon = node.Number("eps", std::numeric_limits<float>::epsilon());
  SL_ASSIGN_OR_RETURN(x, in.tensors().Normalised(x, dims, epsilon, /*centre=*/false));
  SL_ASSIGN_OR_RETURN(const auto gamma, in.Optional(node, "weight"));
  return MultiplyIfGiven(in, x, gamma);
}

// The per-channel factors of a norm, along dimension 1 of so many.
absl::StatusOr<std::optional<ValueId>> OfChannels(TorchOperands& in, const TorchNode& node,
                                                  const char* name, size_t dimensions) {
  SL_ASSIGN_OR_RETURN(std::optional<ValueId> value, in.Optional(node, name));
  if (!value) return value;
  Sizes sizes(dimensions, 1);
  sizes[1] = in.tensors().SizesOf(*value)[0];
  SL_ASSIGN_OR_RETURN(value, in.tensors().Reshape(*value, sizes));
  return value;
}

// x by the weight of each channel, and its bias, where a norm has them.
Made ScaleChannels(TorchOperands& in, const TorchNode& node, ValueId x) {
  const size_t dims = in.tensors().SizesOf(x).size();
  SL_ASSIGN_OR_RETURN(const auto weight, OfChannels(in, node, "weight", dims));
  SL_ASSIGN_OR_RETURN(const auto bias, OfChannels(in, node, "bias", dims));
  SL_ASSIGN_OR_RETURN(x, MultiplyIfGiven(in, x, weight));
  return AddIfGiven(in, x, bias);
}

Made GroupNorm(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("input")));
  const Sizes sizes = in.tensors().SizesOf(x);
  const auto groups = static_cast<int64_t>(node.Number("num_groups", 1));
  if (sizes.size() < 2 || groups < 1) return in.graph().Unknown(node);
  const int64_t each = in.tensors().ElementsOf(x) / sizes[0] / groups;
  SL_ASSIGN_OR_RETURN(x, in.tensors().Reshape(x, {sizes[0], groups, each}));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Normalised(x, {2}, node.Number("eps", 1e-5), true));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Reshape(x, sizes));
  return ScaleChannels(in, node, x);
}

// A parameter of so many channels, or this number for each.
Made OfChannelsOr(TorchOperands& in, const TorchNode& node, const char* name, ParamUse use,
                  int64_t channels, double number) {
  const std::string value = node.Tensor(name);
  if (value.empty()) {
    return in.tensors().Numbers({channels}, std::vector<double>(channels, number));
  }
  return IsParamOf(in, value, 1) ? TakeParam(in, node, value, use) : in.Value(value);
}

// By the statistics of the microbatch, of which it keeps averages.
Made TrainedBatchNorm(TorchOperands& in, const TorchNode& node) {
  const double momentum = node.Number("momentum", 0.1), epsilon = node.Number("eps", 1e-5);
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("input")));
  const Sizes sizes = in.tensors().SizesOf(x);
  if (sizes.size() < 2) return in.graph().Unknown(node);
  const std::string mean = in.graph().Strip(node.Tensor("running_mean"));
  const std::string variance = in.graph().Strip(node.Tensor("running_var"));
  if (mean.empty() || variance.empty()) {
    Sizes others = {0};
    for (size_t d = 2; d < sizes.size(); ++d) others.push_back(static_cast<int64_t>(d));
    SL_ASSIGN_OR_RETURN(x, in.tensors().Normalised(x, others, epsilon, /*centre=*/true));
    return ScaleChannels(in, node, x);
  }
  if (momentum <= 0 || momentum > 1)
    return in.graph().Unknown(node, "its momentum is not in (0, 1]");
  SL_ASSIGN_OR_RETURN(const ValueId gamma,
                      OfChannelsOr(in, node, "weight", ParamUse::kNorm, sizes[1], 1));
  SL_ASSIGN_OR_RETURN(const ValueId beta,
                      OfChannelsOr(in, node, "bias", ParamUse::kBias, sizes[1], 0));
  RaisedParams& params = in.nodes().params();
  SL_ASSIGN_OR_RETURN(const ValueId of_mean,
                      params.TakeAverage(mean, ParamUse::kMean, momentum, node.module));
  SL_ASSIGN_OR_RETURN(const ValueId of_variance,
                      params.TakeAverage(variance, ParamUse::kVariance, momentum, node.module));
  return in.tensors().Append(Op::kBatchNorm, {x, gamma, beta, of_mean, of_variance}, {epsilon});
}

// By the statistics that it keeps, as after eval().
Made BatchNorm(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  if (node.Number("training", 0) != 0) return TrainedBatchNorm(in, node);
  SL_ASSIGN_OR_RETURN(ValueId x, in.Value(node.Tensor("input")));
  const size_t dims = in.tensors().SizesOf(x).size();
  SL_ASSIGN_OR_RETURN(const auto mean, OfChannels(in, node, "running_mean", dims));
  SL_ASSIGN_OR_RETURN(const auto variance, OfChannels(in, node, "running_var", dims));
  if (!mean || !variance) return in.graph().Unknown(node, "it keeps no statistics");
  SL_ASSIGN_OR_RETURN(const ValueId less, in.tensors().Scale(*mean, -1));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Add(x, less));
  SL_ASSIGN_OR_RETURN(
      ValueId root, in.tensors().Map(MapFunction::add_number, *variance, node.Number("eps", 1e-5)));
  SL_ASSIGN_OR_RETURN(root, in.tensors().Map(MapFunction::rsqrt, root));
  SL_ASSIGN_OR_RETURN(x, in.tensors().Multiply(x, root));
  return ScaleChannels(in, node, x);
}

// The letters of one side of an einsum's equation.
std::vector<std::string> LettersOf(absl::string_view side) {
  return absl::StrSplit(absl::StrReplaceAll(side, {{" ", ""}}), ',');
}

// x with the letters `wanted`, in this order: those that it lacks have size 1.
Made InOrder(TensorNodes& tensors, ValueId x, const std::string& letters,
             const std::string& wanted) {
  Sizes order, sizes;
  for (const char letter : wanted) {
    const size_t at = letters.find(letter);
    sizes.push_back(at == std::string::npos ? 1 : tensors.SizesOf(x)[at]);
    if (at != std::string::npos) order.push_back(static_cast<int64_t>(at));
  }
  SL_ASSIGN_OR_RETURN(x, tensors.Permute(x, order));
  return tensors.Reshape(x, sizes);
}

// An einsum of two tensors is a product of matrices: first come the letters of both tensors and of
// the result, then those of one tensor and the result, then those of the sum.
Made Einsum(TorchOperands& in, const TorchNode& node, size_t output) {
  TensorNodes& tensors = in.tensors();
  const TorchArgument* const equation = node.Find("equation");
  const TorchArgument* const operands = node.Find("tensors");
  if (equation == nullptr || operands == nullptr || operands->tensors.size() != 2) {
    return in.graph().Unknown(node, "of other than two tensors");
  }
  const std::vector<std::string> sides = absl::StrSplit(equation->text, "->");
  const std::vector<std::string> letters = LettersOf(sides[0]);
  if (sides.size() != 2 || letters.size() != 2 || absl::StrContains(equation->text, "...")) {
    return in.graph().Unknown(node, "an equation without '->', or with '...'");
  }
  const std::string result = LettersOf(sides[1])[0];
  SL_ASSIGN_OR_RETURN(ValueId a, in.Value(operands->tensors[0]));
  SL_ASSIGN_OR_RETURN(ValueId b, in.Value(operands->tensors[1]));
  std::string both, of_a, of_b, summed;
  for (const std::string& side : letters) {
    for (size_t i = 0; i < side.size(); ++i) {
      if (side.find(side[i]) != i) return in.graph().Unknown(node, "with a letter twice");
      const bool other = letters[&side == &letters[0] ? 1 : 0].find(side[i]) != std::string::npos;
      const bool stays = result.find(side[i]) != std::string::npos;
      if (!other && !stays) return in.graph().Unknown(node, "with a sum over one tensor");
      if (other && &side != &letters[0]) continue;
      std::string& group = other ? (stays ? both : summed) : (&side == &letters[0] ? of_a : of_b);
      group += side[i];
    }
  }
  const auto size_of = [&](const std::string& group) {
    int64_t size = 1;
    for (const char letter : group) {
      const size_t at = letters[0].find(letter);
      size *= at != std::string::npos ? tensors.SizesOf(a)[at]
                                      : tensors.SizesOf(b)[letters[1].find(letter)];
    }
    return size;
  };
  Sizes whole;
  for (const char letter : absl::StrCat(both, of_a, of_b)) whole.push_back(size_of({letter}));
  const int64_t stacks = size_of(both), rows = size_of(of_a), columns = size_of(of_b);
  const int64_t inner = size_of(summed);
  SL_ASSIGN_OR_RETURN(a, InOrder(tensors, a, letters[0], absl::StrCat(both, of_a, summed)));
  SL_ASSIGN_OR_RETURN(a, tensors.Reshape(a, {stacks, rows, inner}));
  SL_ASSIGN_OR_RETURN(b, InOrder(tensors, b, letters[1], absl::StrCat(both, summed, of_b)));
  SL_ASSIGN_OR_RETURN(b, tensors.Reshape(b, {stacks, inner, columns}));
  SL_ASSIGN_OR_RETURN(ValueId y, tensors.MatMul(a, b));
  SL_ASSIGN_OR_RETURN(y, tensors.Reshape(y, whole));
  SL_ASSIGN_OR_RETURN(y, InOrder(tensors, y, absl::StrCat(both, of_a, of_b), result));
  return tensors.Reshape(y, in.graph().Sizes(node.outputs[output]));
}

// Sums of all positions so far, by a matrix of ones on and below the diagonal.
Made CumulativeSum(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("self")));
  const Sizes& sizes = in.tensors().SizesOf(x);
  SL_ASSIGN_OR_RETURN(const int64_t dim, in.Dimension(node, "dim", -1, sizes));
  const int64_t count = sizes[static_cast<size_t>(dim)];
  std::vector<double> ones;
  for (int64_t i = 0; i < count * count; ++i) ones.push_back(i / count <= i % count ? 1 : 0);
  return in.tensors().Mix(x, dim, count, ones);
}

// The second result of native_dropout, the mask, is made only if nothing reads it.
Made Dropout(TorchOperands& in, const TorchNode& node, size_t output) {
  if (output > 0) {
    if (in.Reader(node.outputs[output]) == nullptr) return in.Value(node.outputs.front());
    return in.graph().Unknown(node, "its mask is read");
  }
  SL_ASSIGN_OR_RETURN(const ValueId x, in.Value(node.Tensor("input")));
  return in.tensors().Dropout(x, node.Number("train", 1) != 0 ? node.Number("p", 0) : 0);
}

// Scores of hidden keys become -inf.
Made Masked(TorchOperands& in, const TorchNode& node, ValueId scores) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const Sizes& sizes = in.tensors().SizesOf(scores);
  if (node.Number("is_causal", 0) != 0) {
    const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
    std::vector<double> bias;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) bias.push_back(c > r ? kHidden : 0);
    }
    SL_ASSIGN_OR_RETURN(const ValueId added, in.tensors().Numbers({rows, columns}, bias));
    SL_ASSIGN_OR_RETURN(scores, in.tensors().Add(scores, added));
  }
  if (node.Tensor("attn_mask").empty()) return scores;
  SL_ASSIGN_OR_RETURN(const ValueId mask, in.Loose(node.Tensor("attn_mask")));
  const TorchType type = in.graph().program().values.at(node.Tensor("attn_mask")).type;
  if (type != TorchType::kBool) return in.tensors().Add(scores, mask);
  return in.tensors().Zip(ZipFunction::where, scores, mask, kHidden);
}

Made Attention(TorchOperands& in, const TorchNode& node, size_t /*output*/) {
  TensorNodes& tensors = in.tensors();
  SL_ASSIGN_OR_RETURN(ValueId q, in.Value(node.Tensor("query")));
  SL_ASSIGN_OR_RETURN(ValueId k, in.Value(node.Tensor("key")));
  SL_ASSIGN_OR_RETURN(ValueId v, in.Value(node.Tensor("value")));
  const Sizes of_q = tensors.SizesOf(q), of_k = tensors.SizesOf(k);
  const size_t dims = of_q.size();
  if (dims < 2 || of_k.size() != dims) return in.graph().Unknown(node);
  const auto last = static_cast<int64_t>(dims) - 1;
  if (node.Number("enable_gqa", 0) != 0 && dims > 2 && of_k[dims - 3] != of_q[dims - 3]) {
    const int64_t times = of_q[dims - 3] / of_k[dims - 3];
    SL_ASSIGN_OR_RETURN(k, tensors.RepeatEach(k, last - 2, times));
    SL_ASSIGN_OR_RETURN(v, tensors.RepeatEach(v, last - 2, times));
  }
  const double scale = node.Number("scale", 1 / std::sqrt(static_cast<double>(of_q.back())));
  if (scale == 0) return in.graph().Unknown(node, "its scale is 0");
  SL_ASSIGN_OR_RETURN(q, tensors.Scale(q, scale));
  SL_ASSIGN_OR_RETURN(k, tensors.Swap(k, last - 1, last));
  SL_ASSIGN_OR_RETURN(ValueId scores, tensors.MatMul(q, k));
  SL_ASSIGN_OR_RETURN(scores, Masked(in, node, scores));
  SL_ASSIGN_OR_RETURN(scores, tensors.Softmax(scores, last, /*log=*/false));
  SL_ASSIGN_OR_RETURN(scores, tensors.Dropout(scores, node.Number("dropout_p", 0)));
  return tensors.MatMul(scores, v);
}

}  // namespace

const OpRules& LayerRules() {
  static const OpRules& rules = *new OpRules{
      {"linear", MatrixProduct}, {"addmm", MatrixProduct},
      {"mm", MatrixProduct},     {"bmm", MatrixProduct},
      {"matmul", MatrixProduct}, {"baddbmm", MatrixProduct},
      {"einsum", Einsum},        {"cumsum", CumulativeSum},
      {"embedding", Embedding},  {"layer_norm", LayerNorm},
      {"rms_norm", RmsNorm},     {"group_norm", GroupNorm},
      {"batch_norm", BatchNorm}, {"scaled_dot_product_attention", Attention},
      {"dropout", Dropout},      {"native_dropout", Dropout},
  };
  return rules;
}

}  // namespace stringline
