// The index of a thread in its launch, the number of threads, and the unit that each moves at once:
// for kernels that go over rows and numbers with all threads.
#pragma once

#include <cstdint>

namespace stringline {

__device__ inline int64_t ThreadOfGrid() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t ThreadsOfGrid() { return int64_t{gridDim.x} * blockDim.x; }

struct alignas(16) Bytes16 {
  uint32_t word[4];
};

}  // namespace stringline
