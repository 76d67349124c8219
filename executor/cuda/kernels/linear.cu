// Launches of products with weights, of all rows and by expert.
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/launch.h"

namespace stringline::cuda {

// A thread for each item of a tile.
#define LAUNCH_PRODUCT(...)                                          \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<kProductItems>(stream, body);                  \
  }
LAUNCH_PRODUCT(Linear<float>)
LAUNCH_PRODUCT(Linear<Bf16>)
LAUNCH_PRODUCT(LinearInputGrad<float>)
LAUNCH_PRODUCT(LinearInputGrad<Bf16>)
LAUNCH_PRODUCT(LinearWeightGrad<float>)
LAUNCH_PRODUCT(LinearWeightGrad<Bf16>)
LAUNCH_PRODUCT(GroupedLinear<float>)
LAUNCH_PRODUCT(GroupedLinear<Bf16>)
LAUNCH_PRODUCT(GroupedLinearInputGrad<float>)
LAUNCH_PRODUCT(GroupedLinearInputGrad<Bf16>)
LAUNCH_PRODUCT(GroupedLinearWeightGrad<float>)
LAUNCH_PRODUCT(GroupedLinearWeightGrad<Bf16>)

// Eight warps.
#define LAUNCH_TENSOR_PRODUCT(body)                              \
  cudaError_t Launch(cudaStream_t stream, const body& product) { \
    return LaunchBody<kTensorThreads>(stream, product);          \
  }
LAUNCH_TENSOR_PRODUCT(GroupedTensorLinear)
LAUNCH_TENSOR_PRODUCT(GroupedTensorInputGrad)
LAUNCH_TENSOR_PRODUCT(GroupedTensorWeightGrad)

cudaError_t Launch(cudaStream_t stream, const PlanGroups& body) {
  return LaunchBody<256>(stream, body);
}

}  // namespace stringline::cuda
