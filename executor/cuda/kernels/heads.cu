// Launches of bodies by heads or by the scores of a token.
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/launch.h"

namespace stringline::cuda {

// A warp for each head.
#define LAUNCH_HEAD(...)                                             \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<32>(stream, body);                             \
  }
LAUNCH_HEAD(HeadNorm<float, float>)
LAUNCH_HEAD(HeadNorm<Bf16, float>)
LAUNCH_HEAD(HeadNorm<Bf16, Bf16>)
LAUNCH_HEAD(HeadNormGrad<float, float>)
LAUNCH_HEAD(HeadNormGrad<Bf16, float>)
LAUNCH_HEAD(HeadNormGrad<Bf16, Bf16>)

#define LAUNCH_ROTARY(...)                                           \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<128>(stream, body);                            \
  }
LAUNCH_ROTARY(RotaryTable)
LAUNCH_ROTARY(Rotary<float>)
LAUNCH_ROTARY(Rotary<Bf16>)

// A warp for each token's scores.
#define LAUNCH_ROUTER(...)                                           \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<32>(stream, body);                             \
  }
LAUNCH_ROUTER(Route<float>)
LAUNCH_ROUTER(Route<Bf16>)
LAUNCH_ROUTER(RouteGrad<float>)
LAUNCH_ROUTER(RouteGrad<Bf16>)
LAUNCH_ROUTER(Balance<float>)
LAUNCH_ROUTER(Balance<Bf16>)
LAUNCH_ROUTER(ChoiceCounts)
LAUNCH_ROUTER(BalanceUpdate)

}  // namespace stringline::cuda
