// The gradient rules of the experts' ops.
//
// Rows travel out and back by inverse ops: the gradient of dispatch is combine, and the gradient of
// gathering is summing; and vice versa. The backward uses the forward's order, counts and received:
// it exchanges no counts.
#include "stages/builder.h"
#include "stages/gradients.h"

namespace stringline {

Grads GradientOfRoute(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted) {
  const ValueId logits = node.inputs[0], choice = node.outputs[1];
  Grads grads(2, kNone);
  if (wanted[0]) {
    grads[0] = builder.Append(Op::kRouteGrad, {dy[0], logits, choice},
                              {node.attributes[1], node.attributes[2], node.attributes[3]});
  }
  if (wanted[1]) {
    const double experts = static_cast<double>(builder.TypeOf(logits).shape.back());
    grads[1] = builder.Append(Op::kChoiceCounts, {choice}, {experts});
  }
  return grads;
}

Grads GradientOfBalanceLoss(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kBalanceLossGrad, {dy[0], node.inputs[0], node.inputs[1]},
                         node.attributes),
          kNone};
}

Grads GradientOfGatherRows(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kSumRows, {dy[0], node.inputs[1]}), kNone};
}

Grads GradientOfSumRows(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kGatherRows, {dy[0], node.inputs[1]}), kNone};
}

Grads GradientOfGatherWeights(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  return {builder.Append(Op::kScatterWeights, {dy[0], node.inputs[1]}), kNone};
}

Grads GradientOfDispatch(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  const double rows = static_cast<double>(builder.TypeOf(node.inputs[0]).shape[0]);
  return {builder.Append(Op::kCombine, {dy[0], node.inputs[1], node.inputs[2]}, {rows}), kNone,
          kNone};
}

Grads GradientOfCombine(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  const double rows = static_cast<double>(builder.TypeOf(node.inputs[0]).shape[0]);
  return {builder.Append(Op::kDispatch, {dy[0], node.inputs[1], node.inputs[2]}, {rows}), kNone,
          kNone};
}

Grads GradientOfGroupedLinear(Builder& builder, const Node& node, OutputGrads dy,
                              const Wanted& wanted) {
  const ValueId x = node.inputs[0], w = node.inputs[1], received = node.inputs[2];
  Grads grads(3, kNone);
  if (wanted[0]) grads[0] = builder.Append(Op::kGroupedLinearInputGrad, {dy[0], w, received});
  if (wanted[1]) grads[1] = builder.Append(Op::kGroupedLinearWeightGrad, {dy[0], x, received});
  return grads;
}

Grads GradientOfExpertSwiglu(Builder& builder, const Node& node, OutputGrads dy, const Wanted&) {
  Grads grads = builder.AppendAll(Op::kExpertSwigluGrad,
                                  {dy[0], node.inputs[0], node.inputs[1], node.inputs[2]});
  grads.push_back(kNone);
  return grads;
}

}  // namespace stringline
