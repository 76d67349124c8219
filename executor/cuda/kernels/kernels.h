// Launches of the bodies in executor/cuda/bodies/: each on a stream, with a number of threads that
// suits its shape.
//
// Launch returns the runtime's error of the launch; errors of the run come with the stream's. No
// function here allocates, waits or reads device memory, so all can be captured. Types: float or
// Bf16 as noted; parameters, statistics and gradients of parameters as in the body.
#pragma once

#include <cuda_runtime_api.h>

#include "executor/cuda/bodies/activations.h"
#include "executor/cuda/bodies/attention.h"
#include "executor/cuda/bodies/column_sum.h"
#include "executor/cuda/bodies/cross_entropy.h"
#include "executor/cuda/bodies/dispatch.h"
#include "executor/cuda/bodies/elementwise.h"
#include "executor/cuda/bodies/embedding.h"
#include "executor/cuda/bodies/head_norm.h"
#include "executor/cuda/bodies/linear.h"
#include "executor/cuda/bodies/norms.h"
#include "executor/cuda/bodies/rotary.h"
#include "executor/cuda/bodies/route.h"
#include "executor/cuda/bodies/slices.h"
#include "executor/cuda/bodies/tensor_products.h"
#include "executor/cuda/bodies/update.h"

namespace stringline::cuda {

#define STRINGLINE_LAUNCH(...) cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body)
#define STRINGLINE_LAUNCH_BOTH(body) \
  STRINGLINE_LAUNCH(body<float>);    \
  STRINGLINE_LAUNCH(body<Bf16>)
#define STRINGLINE_LAUNCH_NORM(body)     \
  STRINGLINE_LAUNCH(body<float, float>); \
  STRINGLINE_LAUNCH(body<Bf16, float>);  \
  STRINGLINE_LAUNCH(body<Bf16, Bf16>)
#define STRINGLINE_LAUNCH_NORM_GRAD(body)                  \
  STRINGLINE_LAUNCH(body<NormKind::kLayer, float, float>); \
  STRINGLINE_LAUNCH(body<NormKind::kLayer, Bf16, float>);  \
  STRINGLINE_LAUNCH(body<NormKind::kLayer, Bf16, Bf16>);   \
  STRINGLINE_LAUNCH(body<NormKind::kRms, float, float>);   \
  STRINGLINE_LAUNCH(body<NormKind::kRms, Bf16, float>);    \
  STRINGLINE_LAUNCH(body<NormKind::kRms, Bf16, Bf16>)
#define STRINGLINE_LAUNCH_SIGHT(body, size, sight)    \
  STRINGLINE_LAUNCH(body<float, size, Sight::sight>); \
  STRINGLINE_LAUNCH(body<Bf16, size, Sight::sight>)
#define STRINGLINE_LAUNCH_SIZE(body, size)        \
  STRINGLINE_LAUNCH_SIGHT(body, size, kSequence); \
  STRINGLINE_LAUNCH_SIGHT(body, size, kPast);     \
  STRINGLINE_LAUNCH_SIGHT(body, size, kDocument); \
  STRINGLINE_LAUNCH_SIGHT(body, size, kCross)
#define STRINGLINE_LAUNCH_SIZES(body) \
  STRINGLINE_LAUNCH_SIZE(body, 64);   \
  STRINGLINE_LAUNCH_SIZE(body, 128);  \
  STRINGLINE_LAUNCH_SIZE(body, 256)

STRINGLINE_LAUNCH_BOTH(Add);
STRINGLINE_LAUNCH_BOTH(Mul);
STRINGLINE_LAUNCH_BOTH(Fill);
STRINGLINE_LAUNCH_BOTH(AddRepeated);
STRINGLINE_LAUNCH_BOTH(CopyPart);
STRINGLINE_LAUNCH(Scale<float, float>);
STRINGLINE_LAUNCH(Scale<float, Bf16>);
STRINGLINE_LAUNCH(Scale<Bf16, float>);
STRINGLINE_LAUNCH(Scale<Bf16, Bf16>);
STRINGLINE_LAUNCH_BOTH(Gelu);
STRINGLINE_LAUNCH_BOTH(GeluGrad);
STRINGLINE_LAUNCH_BOTH(Swiglu);
STRINGLINE_LAUNCH_BOTH(SwigluGrad);
STRINGLINE_LAUNCH_NORM(LayerNorm);
STRINGLINE_LAUNCH_NORM(RmsNorm);
STRINGLINE_LAUNCH_NORM_GRAD(NormGrad);
STRINGLINE_LAUNCH_NORM_GRAD(ShortNormGrad);
STRINGLINE_LAUNCH_NORM_GRAD(LongNormGrad);
STRINGLINE_LAUNCH_NORM_GRAD(LongestNormGrad);
STRINGLINE_LAUNCH_BOTH(ColumnSum);
STRINGLINE_LAUNCH_BOTH(SumOfFewRows);
STRINGLINE_LAUNCH_NORM(HeadNorm);
STRINGLINE_LAUNCH_NORM(HeadNormGrad);
STRINGLINE_LAUNCH(RotaryTable);
STRINGLINE_LAUNCH_BOTH(Rotary);
STRINGLINE_LAUNCH_SIZES(Attention);
STRINGLINE_LAUNCH_BOTH(AttentionDelta);
STRINGLINE_LAUNCH_SIZES(AttentionGradQueries);
STRINGLINE_LAUNCH_SIZES(AttentionGradKeys);
STRINGLINE_LAUNCH_BOTH(CrossEntropy);
STRINGLINE_LAUNCH_BOTH(CrossEntropyInScratch);
STRINGLINE_LAUNCH(SumOfAll);
STRINGLINE_LAUNCH_BOTH(Embedding);
STRINGLINE_LAUNCH_BOTH(EmbeddingGradSegments);
STRINGLINE_LAUNCH_BOTH(EmbeddingGrad);
STRINGLINE_LAUNCH(CountKeys);
STRINGLINE_LAUNCH(PlaceKeys);
STRINGLINE_LAUNCH(PlaceItems);
STRINGLINE_LAUNCH_BOTH(GatherRows);
STRINGLINE_LAUNCH(InvertOrder);
STRINGLINE_LAUNCH_BOTH(SumRows);
STRINGLINE_LAUNCH(PermuteWeights);
STRINGLINE_LAUNCH(SumOfCounts);
STRINGLINE_LAUNCH_BOTH(CopyTaken);
STRINGLINE_LAUNCH_BOTH(ClearBehind);
STRINGLINE_LAUNCH_BOTH(Route);
STRINGLINE_LAUNCH_BOTH(RouteGrad);
STRINGLINE_LAUNCH(ChoiceCounts);
STRINGLINE_LAUNCH_BOTH(Balance);
STRINGLINE_LAUNCH_BOTH(Linear);
STRINGLINE_LAUNCH_BOTH(LinearInputGrad);
STRINGLINE_LAUNCH_BOTH(LinearWeightGrad);
STRINGLINE_LAUNCH(PlanGroups);
STRINGLINE_LAUNCH_BOTH(GroupedLinear);
STRINGLINE_LAUNCH_BOTH(GroupedLinearInputGrad);
STRINGLINE_LAUNCH_BOTH(GroupedLinearWeightGrad);
STRINGLINE_LAUNCH(GroupedTensorLinear);
STRINGLINE_LAUNCH(GroupedTensorInputGrad);
STRINGLINE_LAUNCH(GroupedTensorWeightGrad);
STRINGLINE_LAUNCH(SquaresOfChunks);
STRINGLINE_LAUNCH(SumOfSquaredChunks);
STRINGLINE_LAUNCH(ClipScale);
STRINGLINE_LAUNCH(AdamWUpdate);
STRINGLINE_LAUNCH(BalanceUpdate);
STRINGLINE_LAUNCH(SumsOfParams);
STRINGLINE_LAUNCH(SetStep);

#undef STRINGLINE_LAUNCH_SIZES
#undef STRINGLINE_LAUNCH_SIZE
#undef STRINGLINE_LAUNCH_SIGHT
#undef STRINGLINE_LAUNCH_NORM
#undef STRINGLINE_LAUNCH_NORM_GRAD
#undef STRINGLINE_LAUNCH_BOTH
#undef STRINGLINE_LAUNCH

// Operations of several launches are functions over a Run, such as SumColumns, SortTokens,
// AddEmbeddingGrad, PlanDispatch, PlanGroupedRows and RunAttention. StreamRun launches on a stream
// and keeps the first error.
class StreamRun {
 public:
  explicit StreamRun(cudaStream_t stream) : stream_(stream) {}

  template <class Body>
  void operator()(const Body& body) const {
    if (error_ == cudaSuccess) error_ = Launch(stream_, body);
  }
  // Keeps the error of a call that launches no body, too.
  void Check(cudaError_t error) const {
    if (error_ == cudaSuccess) error_ = error;
  }
  cudaError_t error() const { return error_; }

 private:
  cudaStream_t stream_;
  mutable cudaError_t error_ = cudaSuccess;
};

}  // namespace stringline::cuda
