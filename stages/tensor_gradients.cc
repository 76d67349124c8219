// Gradient rules of the ops on tensors of any shape.
#include "stages/builder.h"
#include "stages/gradients.h"

namespace stringline {
namespace {

std::vector<double> SizesOf(const Builder& builder, ValueId value) {
  const std::vector<int64_t>& shape = builder.TypeOf(value).shape;
  return {shape.begin(), shape.end()};
}

}  // namespace

Grads GradientOfMap(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kMapGrad, {dy[0], node.inputs[0]}, node.attributes)};
}

Grads GradientOfZip(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return builder.AppendAll(Op::kZipGrad, {dy[0], node.inputs[0], node.inputs[1]}, node.attributes);
}

Grads GradientOfReshape(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kReshape, {dy[0]}, SizesOf(builder, node.inputs[0]))};
}

Grads GradientOfPermute(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  std::vector<double> back(node.attributes.size());
  for (size_t d = 0; d < back.size(); ++d) {
    back[static_cast<size_t>(node.attributes[d])] = static_cast<double>(d);
  }
  return {builder.Append(Op::kPermute, {dy[0]}, std::move(back))};
}

Grads GradientOfExpand(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kSumTo, {dy[0]}, SizesOf(builder, node.inputs[0]))};
}

Grads GradientOfSumTo(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kExpand, {dy[0]}, SizesOf(builder, node.inputs[0]))};
}

Grads GradientOfTake(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  const auto dim = static_cast<size_t>(node.attributes[0]);
  const auto size = static_cast<double>(builder.TypeOf(node.inputs[0]).shape[dim]);
  return {builder.Append(Op::kPut, {dy[0]},
                         {node.attributes[0], node.attributes[1], node.attributes[2], size})};
}

Grads GradientOfPut(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  const auto dim = static_cast<size_t>(node.attributes[0]);
  const auto count = static_cast<double>(builder.TypeOf(node.inputs[0]).shape[dim]);
  return {builder.Append(Op::kTake, {dy[0]},
                         {node.attributes[0], node.attributes[1], node.attributes[2], count})};
}

Grads GradientOfJoin(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted) {
  Grads grads(2, kNone);
  double first = 0;
  for (size_t i = 0; i < 2; ++i) {
    const auto dim = static_cast<size_t>(node.attributes[0]);
    const auto count = static_cast<double>(builder.TypeOf(node.inputs[i]).shape[dim]);
    if (wanted[i]) {
      grads[i] = builder.Append(Op::kTake, {dy[0]}, {node.attributes[0], first, 1, count});
    }
    first += count;
  }
  return grads;
}

// With A and B as the product takes them: dA = dY B', dB = A' dY.
Grads GradientOfMatMul(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted) {
  const ValueId a = node.inputs[0], b = node.inputs[1];
  const bool turn_a = node.attributes[0] != 0, turn_b = node.attributes[1] != 0;
  Grads grads(2, kNone);
  const auto product = [&](ValueId left, bool turn_left, ValueId right, bool turn_right) {
    return builder.Append(Op::kMatMul, {left, right},
                          {turn_left ? 1.0 : 0.0, turn_right ? 1.0 : 0.0});
  };
  if (wanted[0])
    grads[0] = turn_a ? product(b, turn_b, dy[0], true) : product(dy[0], false, b, !turn_b);
  if (wanted[1])
    grads[1] = turn_b ? product(dy[0], true, a, turn_a) : product(a, !turn_a, dy[0], false);
  return grads;
}

Grads GradientOfSoftmax(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kSoftmaxGrad, {dy[0], node.outputs[0]}, node.attributes)};
}

// The indices are part of the forward and have no gradient.
Grads GradientOfTopK(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  const std::vector<int64_t>& shape = builder.TypeOf(node.inputs[0]).shape;
  return {builder.Append(
      Op::kScatter, {dy[0], node.outputs[1]},
      {static_cast<double>(shape.size() - 1), static_cast<double>(shape.back()), 0})};
}

Grads GradientOfGather(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted) {
  if (!wanted[0]) return {kNone, kNone};
  const auto dim = static_cast<size_t>(node.attributes[0]);
  const auto size = static_cast<double>(builder.TypeOf(node.inputs[0]).shape[dim]);
  return {builder.Append(Op::kScatter, {dy[0], node.inputs[1]}, {node.attributes[0], size, 1}),
          kNone};
}

// Torch's gradient, also of a number in whose place a later one stays.
Grads GradientOfScatter(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted) {
  if (!wanted[0]) return {kNone, kNone};
  return {builder.Append(Op::kGather, {dy[0], node.inputs[1]}, {node.attributes[0]}), kNone};
}

Grads GradientOfPaddedEmbedding(Builder& builder, const Node& node, OutputGrads dy,
                                const Wanted& wanted) {
  if (!wanted[1]) return {kNone, kNone};
  const auto rows = static_cast<double>(builder.TypeOf(node.inputs[1]).shape[0]);
  return {kNone, builder.Append(Op::kPaddedEmbeddingGrad, {node.inputs[0], dy[0]},
                                {rows, node.attributes[0]})};
}

// The "gradients" of the running statistics are those of this microbatch.
Grads GradientOfBatchNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return builder.AppendAll(Op::kBatchNormGrad, {dy[0], node.inputs[0], node.inputs[1],
                                                node.outputs[1], node.outputs[2]});
}

// The gradient is dropped where the number was: by the same mask, made again.
Grads GradientOfDropout(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kDropout, {dy[0], node.inputs[1]}, node.attributes), kNone};
}

Grads GradientOfConvolution(Builder& builder, const Node& node, OutputGrads dy,
                            const Wanted& wanted) {
  Grads grads(2, kNone);
  if (wanted[0]) {
    grads[0] = builder.Append(Op::kConvolutionInputGrad, {dy[0], node.inputs[1]}, node.attributes);
  }
  if (wanted[1]) {
    grads[1] = builder.Append(Op::kConvolutionWeightGrad, {dy[0], node.inputs[0]}, node.attributes);
  }
  return grads;
}

Grads GradientOfMaxPool(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kMaxPoolGrad, {dy[0], node.outputs[1]}, node.attributes)};
}

}  // namespace stringline
