// Launches of attention and its gradient.
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/launch.h"

namespace stringline::cuda {

// A warp for each row's sum.
#define LAUNCH_DELTA(...)                                            \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<32>(stream, body);                             \
  }
LAUNCH_DELTA(AttentionDelta<float>)
LAUNCH_DELTA(AttentionDelta<Bf16>)

// A thread for each item of a tile of scores.
#define LAUNCH_ATTENTION(body)                                             \
  cudaError_t Launch(cudaStream_t stream, const body<float, 64>& sized) {  \
    return LaunchBody<256>(stream, sized);                                 \
  }                                                                        \
  cudaError_t Launch(cudaStream_t stream, const body<float, 128>& sized) { \
    return LaunchBody<256>(stream, sized);                                 \
  }                                                                        \
  cudaError_t Launch(cudaStream_t stream, const body<float, 256>& sized) { \
    return LaunchBody<256>(stream, sized);                                 \
  }                                                                        \
  cudaError_t Launch(cudaStream_t stream, const body<Bf16, 64>& sized) {   \
    return LaunchBody<256>(stream, sized);                                 \
  }                                                                        \
  cudaError_t Launch(cudaStream_t stream, const body<Bf16, 128>& sized) {  \
    return LaunchBody<256>(stream, sized);                                 \
  }                                                                        \
  cudaError_t Launch(cudaStream_t stream, const body<Bf16, 256>& sized) {  \
    return LaunchBody<256>(stream, sized);                                 \
  }
LAUNCH_ATTENTION(Attention)
LAUNCH_ATTENTION(AttentionGradQueries)
LAUNCH_ATTENTION(AttentionGradKeys)

}  // namespace stringline::cuda
