// Work is walked by start, with the last end of every stream at hand.
#include "schedlang/kernels/idle_causes.h"

#include <map>
#include <optional>

namespace stringline {

std::vector<IdleCauses> IdleCausesOf(const KernelTrace& trace) {
  struct Stream {
    IdleCauses causes;
    std::optional<int64_t> end_ns;
  };
  std::map<int, Stream> streams;
  for (const DeviceRun& run : trace.runs) {
    if (!run.runs) continue;
    Stream& stream = streams[run.stream];
    if (stream.end_ns) {
      const int64_t gap_ns = run.start_ns - *stream.end_ns;
      const bool is_late = run.call != kNoCall && trace.calls[run.call].start_ns > *stream.end_ns;
      int64_t& of = is_late                  ? stream.causes.host_ns
                    : gap_ns < kBackToBackNs ? stream.causes.kernel_ns
                                             : stream.causes.other_ns;
      of += gap_ns;
    }
    stream.end_ns = run.end_ns;
  }
  std::vector<IdleCauses> causes;
  for (auto& [number, stream] : streams) {
    stream.causes.stream = number;
    causes.push_back(stream.causes);
  }
  return causes;
}

}  // namespace stringline
