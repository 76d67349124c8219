#include "stages/gradients.h"

#include "stages/builder.h"

namespace stringline {
namespace {

// The attributes of the inverse rotation.
std::vector<double> TurnedBack(const Node& node) {
  std::vector<double> attributes = node.attributes;
  attributes[3] = -attributes[3];
  return attributes;
}

// The gradients of an attention whose second input has rows of keys, by the op `gradient`.
Grads GradientOfAttentionTo(Builder& builder, const Node& node, OutputGrads dy, Op gradient) {
  return builder.AppendAll(
      gradient, {dy[0], node.inputs[0], node.inputs[1], node.outputs[0], node.outputs[1]},
      node.attributes);
}

}  // namespace

Grads GradientOfLinear(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted) {
  const ValueId x = node.inputs[0], w = node.inputs[1];
  Grads grads(2, kNone);
  if (wanted[0]) grads[0] = builder.Append(Op::kLinearInputGrad, {dy[0], w});
  if (wanted[1]) grads[1] = builder.Append(Op::kLinearWeightGrad, {dy[0], x});
  return grads;
}

Grads GradientOfLinearBias(Builder& builder, const Node& node, OutputGrads dy,
                           const Wanted& wanted) {
  Grads grads = GradientOfLinear(builder, node, dy, wanted);
  grads.push_back(wanted[2] ? builder.Append(Op::kColumnSum, {dy[0]}) : kNone);
  return grads;
}

Grads GradientOfLinearResidual(Builder& builder, const Node& node, OutputGrads dy,
                               const Wanted& wanted) {
  Grads grads = GradientOfLinearBias(builder, node, dy, wanted);
  grads.push_back(dy[0]);
  return grads;
}

Grads GradientOfAdd(Builder&, const Node&, OutputGrads dy, const Wanted&) { return {dy[0], dy[0]}; }

Grads GradientOfMul(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted) {
  Grads grads(2, kNone);
  if (wanted[0]) grads[0] = builder.Append(Op::kMul, {dy[0], node.inputs[1]});
  if (wanted[1]) grads[1] = builder.Append(Op::kMul, {dy[0], node.inputs[0]});
  return grads;
}

Grads GradientOfScale(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kScale, {dy[0]}, node.attributes)};
}

// The cast back.
Grads GradientOfCast(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  const DType dtype = builder.TypeOf(node.inputs[0]).dtype;
  return {builder.Append(Op::kCast, {dy[0]}, {8.0 * BytesOf(dtype)})};
}

Grads GradientOfConstant(Builder&, const Node&, OutputGrads, const Wanted&) { return {}; }

Grads GradientOfLayerNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return builder.AppendAll(Op::kLayerNormGrad, {dy[0], node.inputs[0], node.inputs[1],
                                                node.outputs[1], node.outputs[2]});
}

Grads GradientOfGelu(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kGeluGrad, {dy[0], node.inputs[0]})};
}

Grads GradientOfAttention(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kAttentionGrad,
                         {dy[0], node.inputs[0], node.outputs[0], node.outputs[1]},
                         node.attributes)};
}

Grads GradientOfEmbedding(Builder& builder, const Node& node, OutputGrads dy,
                          const Wanted& wanted) {
  if (!wanted[1]) return {kNone, kNone};
  const double rows = static_cast<double>(builder.TypeOf(node.inputs[1]).shape[0]);
  return {kNone, builder.Append(Op::kEmbeddingGrad, {node.inputs[0], dy[0]}, {rows})};
}

Grads GradientOfPositionAdd(Builder& builder, const Node& node, OutputGrads dy,
                            const Wanted& wanted) {
  if (!wanted[1]) return {dy[0], kNone};
  const double rows = static_cast<double>(builder.TypeOf(node.inputs[1]).shape[0]);
  return {dy[0], builder.Append(Op::kPositionGrad, {dy[0]}, {rows, node.attributes[0]})};
}

Grads GradientOfCrossEntropy(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kCrossEntropyGrad,
                         {dy[0], node.inputs[0], node.inputs[1], node.outputs[1]}),
          kNone};
}

Grads GradientOfLinearAdd(Builder& builder, const Node& node, OutputGrads dy,
                          const Wanted& wanted) {
  const Grads grads = GradientOfLinear(builder, node, dy, wanted);
  return {grads[0], grads[1], dy[0]};
}

Grads GradientOfRmsNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return builder.AppendAll(Op::kRmsNormGrad,
                           {dy[0], node.inputs[0], node.inputs[1], node.outputs[1]});
}

Grads GradientOfHeadNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return builder.AppendAll(Op::kHeadNormGrad,
                           {dy[0], node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[1]},
                           {node.attributes[0], node.attributes[1]});
}

Grads GradientOfRotary(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kRotary, {dy[0]}, TurnedBack(node))};
}

Grads GradientOfSwiglu(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kSwigluGrad, {dy[0], node.inputs[0]})};
}

Grads GradientOfAttentionPast(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return GradientOfAttentionTo(builder, node, dy, Op::kAttentionPastGrad);
}

Grads GradientOfCrossAttention(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return GradientOfAttentionTo(builder, node, dy, Op::kCrossAttentionGrad);
}

Grads GradientOfPackedAttention(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kPackedAttentionGrad,
                         {dy[0], node.inputs[0], node.inputs[1], node.outputs[0], node.outputs[1]},
                         node.attributes),
          kNone};
}

Grads GradientOfPackedRotary(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kPackedRotary, {dy[0], node.inputs[1]}, TurnedBack(node)), kNone};
}

Grads GradientOfPackKeys(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kPackKeysGrad, {dy[0]}, node.attributes)};
}

Grads GradientOfAppendPositions(Builder& builder, const Node& node, OutputGrads dy,
                                const Wanted& wanted) {
  Grads grads(2, kNone);
  double first = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    const double count = static_cast<double>(builder.TypeOf(node.inputs[i]).shape[1]);
    if (wanted[i]) grads[i] = builder.Append(Op::kTakePositions, {dy[0]}, {first, count});
    first += count;
  }
  return grads;
}

}  // namespace stringline
