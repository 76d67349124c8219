#include "schedlang/torch/busy_times.h"

#include <algorithm>
#include <utility>

namespace stringline {

BusyTimes BusyTimesOf(const std::vector<DeviceSpan>& spans) {
  struct Change {
    int64_t at_ns;
    int by;
    DeviceWork work;
  };
  std::vector<Change> changes;
  for (const DeviceSpan& span : spans) {
    changes.push_back({span.start_ns, 1, span.work});
    changes.push_back({span.end_ns, -1, span.work});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
  BusyTimes times;
  int running[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < changes.size(); ++i) {
    running[static_cast<size_t>(changes[i].work)] += changes[i].by;
    if (i + 1 == changes.size()) break;
    const int64_t length_ns = changes[i + 1].at_ns - changes[i].at_ns;
    const bool computes = running[static_cast<size_t>(DeviceWork::kComputation)] > 0;
    const bool communicates = running[static_cast<size_t>(DeviceWork::kCommunication)] > 0;
    const bool other = running[static_cast<size_t>(DeviceWork::kMemory)] > 0 ||
                       running[static_cast<size_t>(DeviceWork::kOther)] > 0;
    times.total_ns += length_ns;
    times.computation_ns += computes ? length_ns : 0;
    times.communication_ns += communicates ? length_ns : 0;
    times.overlap_ns += computes && communicates ? length_ns : 0;
    times.other_ns += !computes && (communicates || other) ? length_ns : 0;
    times.idle_ns += !computes && !communicates && !other ? length_ns : 0;
  }
  return times;
}

}  // namespace stringline
