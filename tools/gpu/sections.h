// What gpu_check looks at. A section calls CUDA, so it runs in a process of its own; the tests run
// them beside a stand-in for CUDA's runtime.
#pragma once

#include <string>
#include <vector>

#include "executor/cuda/cuda_kernels.h"
#include "tools/gpu/run_sections.h"

namespace stringline {

// Streams, events, copies, capture: what everything else stands on; and the rate of a copy.
void CheckDevice(CheckRows* rows);

// Every schedule in the folder, on so many ranks, GPT and a mixture of experts: gradients on the
// GPU against the CPU's, and two runs against each other.
void CheckTraining(const std::string& folder, const std::vector<int>& ranks, CheckRows* rows);

// For each problem, and its gradient: attention by the library against our own kernel, from the
// same numbers in bf16; two runs of the library against each other, in every bit; and how long both
// take. Skipped where there is no library.
void CheckAttention(const std::vector<cuda::AttentionProblem>& problems,
                    CudaKernels::AttentionSource library, CheckRows* rows);

// In the order in which they are run; `schedules` is the library's folder.
std::vector<CheckSection> AllSections(const std::string& schedules);

}  // namespace stringline
