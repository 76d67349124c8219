// The gradient rules named by ops.def: the contract is GradientRule's in ops.h.
//
// A rule emits separate nodes for separate work (a product's input gradient and its weight
// gradient), so the dI/dW split is a closure over nodes; the results of one pass over the data (a
// norm's three gradients) are one node.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "stages/graph.h"

namespace stringline {

class Builder;

using Grads = std::vector<ValueId>;
using OutputGrads = absl::Span<const ValueId>;
using Wanted = std::vector<bool>;

Grads GradientOfLinear(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfLinearBias(Builder& builder, const Node& node, OutputGrads dy,
                           const Wanted& wanted);
Grads GradientOfLinearResidual(Builder& builder, const Node& node, OutputGrads dy,
                               const Wanted& wanted);
Grads GradientOfAdd(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfMul(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfScale(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfCast(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfConstant(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfLayerNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfGelu(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfAttention(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfEmbedding(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfPositionAdd(Builder& builder, const Node& node, OutputGrads dy,
                            const Wanted& wanted);
Grads GradientOfCrossEntropy(Builder& builder, const Node& node, OutputGrads dy,
                             const Wanted& wanted);

Grads GradientOfLinearAdd(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfRmsNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfHeadNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfRotary(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfSwiglu(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfCrossAttention(Builder& builder, const Node& node, OutputGrads dy,
                               const Wanted& wanted);
Grads GradientOfAttentionPast(Builder& builder, const Node& node, OutputGrads dy,
                              const Wanted& wanted);
Grads GradientOfPackedAttention(Builder& builder, const Node& node, OutputGrads dy,
                                const Wanted& wanted);
Grads GradientOfPackedRotary(Builder& builder, const Node& node, OutputGrads dy,
                             const Wanted& wanted);
Grads GradientOfPackKeys(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfAppendPositions(Builder& builder, const Node& node, OutputGrads dy,
                                const Wanted& wanted);

// Gradients of the ops on tensors of any shape: tensor_gradients.cc.
Grads GradientOfMap(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfZip(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfReshape(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfPermute(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfExpand(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfSumTo(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfTake(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfPut(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfJoin(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfMatMul(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfSoftmax(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfTopK(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfGather(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfScatter(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfPaddedEmbedding(Builder& builder, const Node& node, OutputGrads dy,
                                const Wanted& wanted);
Grads GradientOfBatchNorm(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfDropout(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfConvolution(Builder& builder, const Node& node, OutputGrads dy,
                            const Wanted& wanted);
Grads GradientOfMaxPool(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);

// Gradients of the experts' ops: experts_gradients.cc.
Grads GradientOfRoute(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfBalanceLoss(Builder& builder, const Node& node, OutputGrads dy,
                            const Wanted& wanted);
Grads GradientOfGatherRows(Builder& builder, const Node& node, OutputGrads dy,
                           const Wanted& wanted);
Grads GradientOfSumRows(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfGatherWeights(Builder& builder, const Node& node, OutputGrads dy,
                              const Wanted& wanted);
Grads GradientOfDispatch(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfCombine(Builder& builder, const Node& node, OutputGrads dy, const Wanted& wanted);
Grads GradientOfGroupedLinear(Builder& builder, const Node& node, OutputGrads dy,
                              const Wanted& wanted);
Grads GradientOfExpertSwiglu(Builder& builder, const Node& node, OutputGrads dy,
                             const Wanted& wanted);

}  // namespace stringline
