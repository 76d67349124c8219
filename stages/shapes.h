// The shape rules named by ops.def: the contract is ShapeRule's in ops.h.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "stages/graph.h"

namespace stringline {

using InferredTypes = absl::StatusOr<std::vector<Type>>;
using InputTypes = absl::Span<const Type>;
using Attributes = absl::Span<const double>;

InferredTypes ShapeOfLinear(InputTypes in, Attributes);
InferredTypes ShapeOfLinearInputGrad(InputTypes in, Attributes);
InferredTypes ShapeOfLinearWeightGrad(InputTypes in, Attributes);
InferredTypes ShapeOfLinearBias(InputTypes in, Attributes);
InferredTypes ShapeOfLinearResidual(InputTypes in, Attributes);
InferredTypes ShapeOfColumnSum(InputTypes in, Attributes);
InferredTypes ShapeOfElementwise(InputTypes in, Attributes);
InferredTypes ShapeOfUnary(InputTypes in, Attributes);
InferredTypes ShapeOfCast(InputTypes in, Attributes attributes);
InferredTypes ShapeOfConstant(InputTypes in, Attributes);
InferredTypes ShapeOfLayerNorm(InputTypes in, Attributes);
InferredTypes ShapeOfLayerNormGrad(InputTypes in, Attributes);
InferredTypes ShapeOfAttention(InputTypes in, Attributes attributes);
InferredTypes ShapeOfAttentionGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfEmbedding(InputTypes in, Attributes);
InferredTypes ShapeOfEmbeddingGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPositionAdd(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPositionGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfCrossEntropy(InputTypes in, Attributes);
InferredTypes ShapeOfCrossEntropyGrad(InputTypes in, Attributes);

InferredTypes ShapeOfLinearAdd(InputTypes in, Attributes);
InferredTypes ShapeOfRmsNorm(InputTypes in, Attributes);
InferredTypes ShapeOfRmsNormGrad(InputTypes in, Attributes);
InferredTypes ShapeOfHeadNorm(InputTypes in, Attributes);
InferredTypes ShapeOfHeadNormGrad(InputTypes in, Attributes);
InferredTypes ShapeOfRotary(InputTypes in, Attributes);
InferredTypes ShapeOfSwiglu(InputTypes in, Attributes);
InferredTypes ShapeOfSwigluGrad(InputTypes in, Attributes);

InferredTypes ShapeOfAttentionPast(InputTypes in, Attributes attributes);
InferredTypes ShapeOfAttentionPastGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfCrossAttention(InputTypes in, Attributes attributes);
InferredTypes ShapeOfCrossAttentionGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPackKeys(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPackKeysGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfAppendPositions(InputTypes in, Attributes);
InferredTypes ShapeOfTakePositions(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPackedAttention(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPackedAttentionGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPackedRotary(InputTypes in, Attributes attributes);

// Shapes of the ops on tensors of any shape: tensor_shapes.cc.
InferredTypes ShapeOfMap(InputTypes in, Attributes attributes);
InferredTypes ShapeOfMapGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfZip(InputTypes in, Attributes attributes);
InferredTypes ShapeOfZipGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfReshape(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPermute(InputTypes in, Attributes attributes);
InferredTypes ShapeOfExpand(InputTypes in, Attributes attributes);
InferredTypes ShapeOfSumTo(InputTypes in, Attributes attributes);
InferredTypes ShapeOfTake(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPut(InputTypes in, Attributes attributes);
InferredTypes ShapeOfJoin(InputTypes in, Attributes attributes);
InferredTypes ShapeOfMatMul(InputTypes in, Attributes attributes);
InferredTypes ShapeOfSoftmax(InputTypes in, Attributes);
InferredTypes ShapeOfSoftmaxGrad(InputTypes in, Attributes);
InferredTypes ShapeOfWhole(InputTypes in, Attributes);
InferredTypes ShapeOfFloat(InputTypes in, Attributes);
InferredTypes ShapeOfTopK(InputTypes in, Attributes attributes);
InferredTypes ShapeOfGather(InputTypes in, Attributes attributes);
InferredTypes ShapeOfScatter(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPaddedEmbedding(InputTypes in, Attributes attributes);
InferredTypes ShapeOfPaddedEmbeddingGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfBatchNorm(InputTypes in, Attributes);
InferredTypes ShapeOfBatchNormGrad(InputTypes in, Attributes);
InferredTypes ShapeOfFloatOfBits(InputTypes in, Attributes);
InferredTypes ShapeOfDropout(InputTypes in, Attributes attributes);
InferredTypes ShapeOfConvolution(InputTypes in, Attributes attributes);
InferredTypes ShapeOfConvolutionInputGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfConvolutionWeightGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfMaxPool(InputTypes in, Attributes attributes);
InferredTypes ShapeOfMaxPoolGrad(InputTypes in, Attributes attributes);
InferredTypes ShapeOfNumbers(InputTypes, Attributes attributes);

// Shapes of the experts' ops: experts_shapes.cc.
InferredTypes ShapeOfRoute(InputTypes in, Attributes attributes);
InferredTypes ShapeOfRouteGrad(InputTypes in, Attributes);
InferredTypes ShapeOfChoiceCounts(InputTypes in, Attributes attributes);
InferredTypes ShapeOfBalanceLoss(InputTypes in, Attributes);
InferredTypes ShapeOfBalanceLossGrad(InputTypes in, Attributes);
InferredTypes ShapeOfDispatchPlan(InputTypes in, Attributes attributes);
InferredTypes ShapeOfGatherRows(InputTypes in, Attributes);
InferredTypes ShapeOfSumRows(InputTypes in, Attributes);
InferredTypes ShapeOfGatherWeights(InputTypes in, Attributes);
InferredTypes ShapeOfScatterWeights(InputTypes in, Attributes);
InferredTypes ShapeOfAllToAllCounts(InputTypes in, Attributes attributes);
InferredTypes ShapeOfDispatch(InputTypes in, Attributes attributes);
InferredTypes ShapeOfCombine(InputTypes in, Attributes attributes);
InferredTypes ShapeOfGroupedLinear(InputTypes in, Attributes);
InferredTypes ShapeOfGroupedLinearInputGrad(InputTypes in, Attributes);
InferredTypes ShapeOfGroupedLinearWeightGrad(InputTypes in, Attributes);
InferredTypes ShapeOfExpertSwiglu(InputTypes in, Attributes);
InferredTypes ShapeOfExpertSwigluGrad(InputTypes in, Attributes);

}  // namespace stringline
