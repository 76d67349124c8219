// Launches of norms of rows.
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/launch.h"

namespace stringline::cuda {

#define LAUNCH_NORM(...)                                             \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchRows(stream, body, body.columns);                   \
  }
LAUNCH_NORM(LayerNorm<float, float>)
LAUNCH_NORM(LayerNorm<Bf16, float>)
LAUNCH_NORM(LayerNorm<Bf16, Bf16>)
LAUNCH_NORM(RmsNorm<float, float>)
LAUNCH_NORM(RmsNorm<Bf16, float>)
LAUNCH_NORM(RmsNorm<Bf16, Bf16>)

// A task keeps sums of all columns in scratch memory, so it has a thread block instead of a warp.
#define LAUNCH_NORM_GRAD(...)                                                                    \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) {                             \
    return body.columns <= 1024 ? LaunchBody<128>(stream, body) : LaunchBody<256>(stream, body); \
  }
LAUNCH_NORM_GRAD(LayerNormGrad<float, float>)
LAUNCH_NORM_GRAD(LayerNormGrad<Bf16, float>)
LAUNCH_NORM_GRAD(LayerNormGrad<Bf16, Bf16>)
LAUNCH_NORM_GRAD(RmsNormGrad<float, float>)
LAUNCH_NORM_GRAD(RmsNormGrad<Bf16, float>)
LAUNCH_NORM_GRAD(RmsNormGrad<Bf16, Bf16>)

}  // namespace stringline::cuda
