// Launches of bodies for tokens, and for their route to experts.
#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/launch.h"

namespace stringline::cuda {

#define LAUNCH_TOKEN_ROWS(...)                                       \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchRows(stream, body, body.columns);                   \
  }
LAUNCH_TOKEN_ROWS(Embedding<float>)
LAUNCH_TOKEN_ROWS(Embedding<Bf16>)
LAUNCH_TOKEN_ROWS(EmbeddingGradSegments<float>)
LAUNCH_TOKEN_ROWS(EmbeddingGradSegments<Bf16>)
LAUNCH_TOKEN_ROWS(EmbeddingGrad<float>)
LAUNCH_TOKEN_ROWS(EmbeddingGrad<Bf16>)
LAUNCH_TOKEN_ROWS(GatherRows<float>)
LAUNCH_TOKEN_ROWS(GatherRows<Bf16>)
LAUNCH_TOKEN_ROWS(SumRows<float>)
LAUNCH_TOKEN_ROWS(SumRows<Bf16>)
LAUNCH_TOKEN_ROWS(CopyTaken<float>)
LAUNCH_TOKEN_ROWS(CopyTaken<Bf16>)

// Logits are long rows. As many threads as there can be, so that few rows are in flight at once:
// two a multiprocessor. They fit into its shared memory, or perhaps all into the L2 cache.
#define LAUNCH_LOGITS(...)                                           \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<1024>(stream, body);                           \
  }
LAUNCH_LOGITS(CrossEntropy<float>)
LAUNCH_LOGITS(CrossEntropy<Bf16>)
LAUNCH_LOGITS(CrossEntropyInScratch<float>)
LAUNCH_LOGITS(CrossEntropyInScratch<Bf16>)

#define LAUNCH_TOKENS(...)                                           \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<256>(stream, body);                            \
  }
LAUNCH_TOKENS(CountKeys)
LAUNCH_TOKENS(PlaceKeys)
LAUNCH_TOKENS(PlaceItems)
LAUNCH_TOKENS(InvertOrder)
LAUNCH_TOKENS(PermuteWeights)
LAUNCH_TOKENS(ClearBehind<float>)
LAUNCH_TOKENS(ClearBehind<Bf16>)

// One task: the maximum number of threads.
#define LAUNCH_SUM(...)                                              \
  cudaError_t Launch(cudaStream_t stream, const __VA_ARGS__& body) { \
    return LaunchBody<1024>(stream, body);                           \
  }
LAUNCH_SUM(SumOfAll)
LAUNCH_SUM(SumOfCounts)

}  // namespace stringline::cuda
