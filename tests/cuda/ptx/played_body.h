// Launches a body's compiled kernel on memory of the heap: for tests of bodies, which otherwise run
// on the host.
#pragma once

#include <gtest/gtest.h>

#include "executor/cuda/bodies/host_block.h"
#include "executor/cuda/kernels/kernels.h"
#include "tests/cuda/ptx/heap.h"
#include "tests/cuda/standin/standin.h"

namespace stringline::cuda {

// The launch chooses the number of threads. A body without a launch runs on the host.
template <class Body>
void PlayBody(const Body& body, int threads) {
  if constexpr (requires { Launch(cudaStream_t(), body); }) {
    ptx::LaunchBegins(__builtin_frame_address(0));
    EXPECT_EQ(Launch(nullptr, body), cudaSuccess);
    (void)cudaStreamSynchronize(nullptr);
    ptx::LaunchEnds();
    if (standin_fault() == nullptr) return;
    ADD_FAILURE() << standin_fault();
    standin_reset(1);
  } else {
    RunOnHost(body, threads);
  }
}

}  // namespace stringline::cuda
