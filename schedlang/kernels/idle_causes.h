// The causes of idle time on a stream of a GPU: get_idle_time_breakdown.
//
// A gap between a kernel, copy or fill and the next on its stream is a wait for the host if the
// host launched the next one only after the former had ended; else a wait between kernels if it is
// shorter than kBackToBackNs; else of another cause, such as a wait for an event of another stream.
// Gaps are from the end of one to the start of the next, and negative where they overlap.
#pragma once

#include <vector>

#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

// Holistic Trace Analysis calls its 30 nanoseconds, but compares with microseconds of the trace.
constexpr int64_t kBackToBackNs = 30'000;

struct IdleCauses {
  int stream = 0;
  int64_t host_ns = 0, kernel_ns = 0, other_ns = 0;
  int64_t all_ns() const { return host_ns + kernel_ns + other_ns; }
};

// Streams in order. Linear in the work.
std::vector<IdleCauses> IdleCausesOf(const KernelTrace& trace);

}  // namespace stringline
