// The time of a GPU's work by kind and by kernel: get_gpu_kernel_breakdown, without its row
// "others" for all that are not among the longest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

// The time in which exactly these kinds ran at once. Events of other kinds (synchronizations by
// name) are left out.
struct KindTime {
  bool computes = false, communicates = false, copies = false;
  int64_t time_ns = 0;
  double share = 0;          // of all these times
  std::string name() const;  // "computation, communication"
};

// Summed over the traces, the longest first; those that occur.
std::vector<KindTime> KindTimesOf(const std::vector<KernelTrace>& traces);

struct KernelTime {
  uint32_t name = 0;
  DeviceWork work = DeviceWork::kComputation;
  int64_t count = 0;
  int64_t sum_ns = 0, least_ns = 0, most_ns = 0;
  double mean_ns = 0, deviation_ns = 0;  // as in Distribution
};

// Kernels of a rank by name, the longest sum first.
std::vector<KernelTime> KernelTimesOf(const KernelTrace& trace);

}  // namespace stringline
