// A body as a kernel: only .cu files include this. Compiled as plain C++, as tests do, a kernel is
// a function that simulates the body's threads: its own host twin.
#pragma once

#include <cuda_runtime.h>

#include "executor/cuda/bodies/block.h"
#ifdef __CUDACC__
#include "executor/cuda/bodies/own_kernels.h"
#else
#include "executor/cuda/bodies/host_twin.h"
#endif

namespace stringline::cuda {

// Blocks that a multiprocessor shall hold at once: the compiler limits registers for that. 0: as it
// likes.
template <class Body>
constexpr int LeastBlocks() {
  if constexpr (requires { Body::kLeastBlocks; }) {
    return Body::kLeastBlocks;
  } else {
    return 0;
  }
}

#ifdef __CUDACC__
template <int kThreads, class Body>
__global__ void __launch_bounds__(kThreads == 32 ? 256 : kThreads, LeastBlocks<Body>())
    BodyKernel(const Body body, int64_t count, int scratch_words) {
  const GpuBlock<kThreads> block(count, scratch_words);
  if (block.index() < count) body(block);
}
template <int kThreads, class Body>
inline const bool kIsListed = ListKernel(reinterpret_cast<const void*>(BodyKernel<kThreads, Body>));
#else
template <int kThreads, class Body>
void BodyKernel(const Body body, int64_t /*count*/, int /*scratch_words*/) {
  RunOnHost(body, kThreads);
}
template <int kThreads, class Body>
inline const bool kIsListed = HasTwin<BodyKernel<kThreads, Body>, BodyKernel<kThreads, Body>>();
#endif

template <class Body>
int ScratchWords(const Body& body) {
  if constexpr (requires { body.scratch_words(); }) {
    return body.scratch_words();
  } else {
    return 0;
  }
}

// Launches the body's tasks, with kThreads threads each. If a task has a warp, eight tasks make a
// thread block, fewer if they need much scratch memory.
template <int kThreads, class Body>
cudaError_t LaunchBody(cudaStream_t stream, const Body& body) {
  // More than 48 KiB of shared memory must be requested; reductions have some of their own.
  constexpr int kUsualBytes = 40 << 10;
  const auto kernel = BodyKernel<kThreads, Body>;
  if (!kIsListed<kThreads, Body>) return cudaErrorInvalidDeviceFunction;
  const auto* const address = reinterpret_cast<const void*>(kernel);
  int64_t count = body.blocks();
  if (count <= 0) return cudaSuccess;
  int words = (ScratchWords(body) + 3) / 4 * 4;  // each warp's begins at a multiple of 16 bytes
  int together = kThreads == 32 ? 8 : 1;
  while (together > 1 && together * words * 4 > kUsualBytes) together /= 2;
  const int64_t grid = (count + together - 1) / together;
  if (grid > INT32_MAX) return cudaErrorInvalidConfiguration;
  const int bytes = together * words * 4;
  if (bytes > kUsualBytes) {
    const cudaError_t error =
        cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
  }
  Body copy = body;
  void* arguments[] = {&copy, &count, &words};
  return cudaLaunchKernel(address, dim3(static_cast<unsigned>(grid)),
                          dim3(kThreads, static_cast<unsigned>(together)), arguments,
                          static_cast<size_t>(bytes), stream);
}

// Tasks that are rows: a warp for each short row.
template <class Body>
cudaError_t LaunchRows(cudaStream_t stream, const Body& body, int64_t columns) {
  return columns <= 1024 ? LaunchBody<32>(stream, body) : LaunchBody<256>(stream, body);
}

}  // namespace stringline::cuda
