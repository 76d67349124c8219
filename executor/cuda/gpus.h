// The GPUs that the ranks of one process run on: their numbers in the machine, the assignment of
// ranks, and access to each other's memory.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/gpu_wish.h"

namespace stringline::cuda {

// The number of GPUs of the machine. Unavailable: no GPU, or no driver. Sets
// CUDA_DEVICE_MAX_CONNECTIONS=32 unless it is set: streams that share a queue of the GPU wait for
// each other. So it must be called before any function of CUDA.
absl::StatusOr<int> CountGpus();

// The numbers of the GPUs for `ranks` ranks. Unavailable: no GPU, or no driver. InvalidArgument: a
// GPU is missing or named twice, or there are more GPUs than ranks.
absl::StatusOr<std::vector<int>> ChooseGpus(const GpuWish& wish, int ranks);

// The index of a rank's GPU among `gpus`: each holds a block of ranks, in order, as equal as
// possible.
inline int GpuOfRank(int rank, int ranks, int gpus) {
  return static_cast<int>(int64_t{rank} * gpus / ranks);
}
// The first rank on a GPU.
inline int FirstRankOfGpu(int gpu, int ranks, int gpus) {
  return static_cast<int>((int64_t{gpu} * ranks + gpus - 1) / gpus);
}
// "ranks 0 to 1 on GPU 0, ranks 2 to 3 on GPU 2".
std::string DescribeBlocks(absl::Span<const int> ordinals, int ranks);

// By GPU and other GPU, in the order of `ordinals`: true if kernels on the first may use memory of
// the other, which is enabled from now on. Unavailable: a GPU is missing. InvalidArgument: the GPUs
// are not of one kind, so that results would depend on the placement of ranks.
using Reach = std::vector<std::vector<bool>>;
absl::StatusOr<Reach> OpenGpus(absl::Span<const int> ordinals);

}  // namespace stringline::cuda
