// The busy and idle times of a rank, by the definitions of Holistic Trace Analysis:
// get_temporal_breakdown and get_comm_comp_overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "schedlang/torch/rank_trace.h"

namespace stringline {

struct BusyTimes {
  int64_t total_ns = 0;          // from the first start to the last end of anything
  int64_t computation_ns = 0;    // at least one computation
  int64_t other_ns = 0;          // no computation, but something else
  int64_t idle_ns = 0;           // nothing; the three add up to the total
  int64_t communication_ns = 0;  // at least one communication
  int64_t overlap_ns = 0;        // both of them

  double overlap() const {  // as a share of communication
    return communication_ns == 0
               ? 0.0
               : static_cast<double>(overlap_ns) / static_cast<double>(communication_ns);
  }
};

BusyTimes BusyTimesOf(const std::vector<DeviceSpan>& spans);

}  // namespace stringline
