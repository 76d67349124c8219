// Curves over the time of a trace: queues of launched work, and rates of copies
// (get_queue_length_time_series, get_memory_bw_time_series). A curve keeps its value from one
// sample to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedlang/kernels/distribution.h"
#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

struct CurveSample {
  int64_t at_ns = 0;
  double value = 0;
};

struct TraceCurve {
  std::string name;     // "stream 7", "Memcpy DtoH"
  int64_t process = 0;  // of its GPU
  int stream = -1;      // of a queue
  std::vector<CurveSample> samples;
};

// Queues of streams: the calls that have launched work which has not started yet. A sample for each
// launch and for each start, in the order of time.
std::vector<TraceCurve> QueueLengthsOf(const KernelTrace& trace);

// Rates by kind of copy or fill: gigabytes a second, summed over those that run. One without length
// lasts a microsecond.
std::vector<TraceCurve> CopyRatesOf(const KernelTrace& trace);

// The distribution of a curve's samples, not weighted by time; of a rate, those above 0.
Distribution DistributionOfQueue(const TraceCurve& queue);
Distribution DistributionOfRate(const TraceCurve& rate);

}  // namespace stringline
