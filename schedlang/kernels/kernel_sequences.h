// Sequences of kernels that an operator launches again and again:
// get_frequent_cuda_kernel_sequences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

struct KernelSequence {
  uint32_t call = 0;              // the operator: index into names
  std::vector<uint32_t> kernels;  // indices into names, by start
  int64_t count = 0;
  int64_t device_ns = 0;  // the kernels' time, summed over all times
  int64_t host_ns = 0;    // the operator's
};

// Sequences of the operators whose names contain `part`, where these are least deep in calls of
// other operators, and launch at least `least_kernels`; within them all launches count. The most
// frequent first. Cost: n log n.
std::vector<KernelSequence> KernelSequencesOf(const KernelTrace& trace, absl::string_view part,
                                              int least_kernels = 3);

}  // namespace stringline
