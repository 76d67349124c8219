// Launches of the end of a step.
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/launch.h"

namespace stringline::cuda {

#define LAUNCH_UPDATE(...)                                           \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<256>(stream, body);                            \
  }
LAUNCH_UPDATE(SquaresOfChunks)
LAUNCH_UPDATE(AdamWUpdate)
LAUNCH_UPDATE(SumsOfParams)

// One task: the maximum number of threads.
#define LAUNCH_SUM_OF_SQUARES(...)                                   \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<1024>(stream, body);                           \
  }
LAUNCH_SUM_OF_SQUARES(SumOfSquaredChunks)

#define LAUNCH_ONCE(...)                                             \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<32>(stream, body);                             \
  }
LAUNCH_ONCE(ClipScale)
LAUNCH_ONCE(SetStep)

}  // namespace stringline::cuda
