// The GPUs that the ranks of one process run on: which of the machine's they are, which ranks are
// on which, and which reach each other's memory.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/gpu_wish.h"

namespace stringline::cuda {

// How many GPUs the machine has. Unavailable: there is none, or no driver. Sets
// CUDA_DEVICE_MAX_CONNECTIONS=32 where it is not set: streams that share a queue of the GPU wait
// for each other. So nothing of CUDA is called before it.
absl::StatusOr<int> CountGpus();

// The numbers of the machine's GPUs that so many ranks shall run on. Unavailable: there is no GPU,
// or no driver. InvalidArgument: one is not there or is named twice, or there are more of them than
// ranks.
absl::StatusOr<std::vector<int>> ChooseGpus(const GpuWish& wish, int ranks);

// Which of `gpus` GPUs a rank is on: they hold the ranks in blocks, in order, as equal as can be.
inline int GpuOfRank(int rank, int ranks, int gpus) {
  return static_cast<int>(int64_t{rank} * gpus / ranks);
}
// The first of the ranks on it.
inline int FirstRankOfGpu(int gpu, int ranks, int gpus) {
  return static_cast<int>((int64_t{gpu} * ranks + gpus - 1) / gpus);
}
// "ranks 0 to 1 on GPU 0, ranks 2 to 3 on GPU 2".
std::string DescribeBlocks(absl::Span<const int> ordinals, int ranks);

// By GPU and other GPU, in the order of `ordinals`: whether kernels on the one may use memory of
// the other. Where the machine can, they may from now on. Unavailable: one is not there.
// InvalidArgument: they are not of one kind, so that numbers would depend on who runs where.
using Reach = std::vector<std::vector<bool>>;
absl::StatusOr<Reach> OpenGpus(absl::Span<const int> ordinals);

}  // namespace stringline::cuda
