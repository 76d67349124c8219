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
#define LAUNCH_TILES(...)                                            \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<256>(stream, body);                            \
  }
#define LAUNCH_ATTENTION_OF(body, size, sight)  \
  LAUNCH_TILES(body<float, size, Sight::sight>) \
  LAUNCH_TILES(body<Bf16, size, Sight::sight>)
#define LAUNCH_ATTENTION_SIZE(body, size)    \
  LAUNCH_ATTENTION_OF(body, size, kSequence) \
  LAUNCH_ATTENTION_OF(body, size, kPast)     \
  LAUNCH_ATTENTION_OF(body, size, kDocument) \
  LAUNCH_ATTENTION_OF(body, size, kCross)
#define LAUNCH_ATTENTION(body)     \
  LAUNCH_ATTENTION_SIZE(body, 64)  \
  LAUNCH_ATTENTION_SIZE(body, 128) \
  LAUNCH_ATTENTION_SIZE(body, 256)
LAUNCH_ATTENTION(Attention)
LAUNCH_ATTENTION(AttentionGradQueries)
LAUNCH_ATTENTION(AttentionGradKeys)

}  // namespace stringline::cuda
