// A page of what GPUs did in traces: curves over the time of each rank as tracks (queues, rates of
// copies, memory), and its kernels as a table. The file needs nothing else, and no script.
#pragma once

#include <string>
#include <vector>

#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

// Ranks in the order of the traces, on one scale of time, each from its own first event. A curve is
// drawn as the range of its values in each of 1,200 columns, so a page stays small.
std::string KernelPage(const std::vector<KernelTrace>& traces);

}  // namespace stringline
