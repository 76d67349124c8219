// Launches beside the work that they start: get_cuda_kernel_launch_stats.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/kernels/distribution.h"
#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

struct KernelLaunch {
  int64_t correlation = 0;
  int64_t host_ns = 0;    // the call
  int64_t device_ns = 0;  // the work
  int64_t delay_ns = 0;  // from the end of the call to the start of the work; 0 if it starts before
};

// Launches by CUDA's runtime (cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync,
// cudaMemsetAsync) that started work, in the order of their calls.
std::vector<KernelLaunch> LaunchesOf(const KernelTrace& trace);

// Launches that cost much, by the limits of Holistic Trace Analysis.
struct LaunchFigures {
  Distribution host_us, device_us, delay_us;
  int64_t short_work = 0;   // the work is shorter than the call
  int64_t long_calls = 0;   // of more than 50 us
  int64_t long_delays = 0;  // of more than 100 us
};
LaunchFigures FiguresOf(const std::vector<KernelLaunch>& launches);

}  // namespace stringline
