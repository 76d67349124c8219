// Which thread of a launch this one is, how many there are, and what one moves at once: for kernels
// that go over rows and numbers with all of them.
#pragma once

#include <cstdint>

namespace stringline {

__device__ inline int64_t ThreadOfGrid() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t ThreadsOfGrid() { return int64_t{gridDim.x} * blockDim.x; }

struct alignas(16) Bytes16 {
  uint32_t word[4];
};

}  // namespace stringline
