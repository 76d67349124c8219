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

// A task keeps sums of all columns, so it has a thread block instead of a warp.
#define LAUNCH_NORM_GRAD(kind, T, P)                                                             \
  cudaError_t Launch(cudaStream_t stream, const NormGrad<NormKind::kind, T, P>& body) {          \
    return body.columns <= 1024 ? LaunchBody<128>(stream, body) : LaunchBody<256>(stream, body); \
  }                                                                                              \
  cudaError_t Launch(cudaStream_t stream, const ShortNormGrad<NormKind::kind, T, P>& body) {     \
    return LaunchBody<128>(stream, body);                                                        \
  }                                                                                              \
  cudaError_t Launch(cudaStream_t stream, const LongNormGrad<NormKind::kind, T, P>& body) {      \
    return LaunchBody<256>(stream, body);                                                        \
  }                                                                                              \
  cudaError_t Launch(cudaStream_t stream, const LongestNormGrad<NormKind::kind, T, P>& body) {   \
    return LaunchBody<256>(stream, body);                                                        \
  }
LAUNCH_NORM_GRAD(kLayer, float, float)
LAUNCH_NORM_GRAD(kLayer, Bf16, float)
LAUNCH_NORM_GRAD(kLayer, Bf16, Bf16)
LAUNCH_NORM_GRAD(kRms, float, float)
LAUNCH_NORM_GRAD(kRms, Bf16, float)
LAUNCH_NORM_GRAD(kRms, Bf16, Bf16)

}  // namespace stringline::cuda
