// Differences between two sets of traces, by the names of calls and kernels:
// TraceDiff.compare_traces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

struct NameDifference {
  std::string name;
  bool on_device = false;  // a kernel, a copy, a fill; else a call of the host
  int64_t counts[2] = {0, 0};
  int64_t times_ns[2] = {0, 0};  // summed
};

// Summed over the traces of each set. The largest change of time first, then by name.
std::vector<NameDifference> NameDifferencesOf(const std::vector<KernelTrace>& first,
                                              const std::vector<KernelTrace>& second);

}  // namespace stringline
