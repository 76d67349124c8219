// The events of a trace in Chrome's format, as Kineto writes it, one after the other.
//
// The file is one JSON object: `distributedInfo` with the rank, `baseTimeNanoseconds`, `host_name`
// and `traceEvents`. Times are microseconds there, read digit by digit, and nanoseconds here.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace stringline {

struct TraceEvent {
  std::string name, category, phase;
  std::optional<int64_t> start_ns, length_ns;  // without the base
  std::optional<int64_t> process, thread;      // if they are numbers
  // Fields of `args`.
  std::optional<int64_t> correlation, stream;
  std::optional<int64_t> sequence,
      forward_thread;  // of autograd: "Sequence number", "Fwd thread id"
  std::optional<int64_t> device, device_type;
  std::optional<int64_t> bytes, allocated_bytes, reserved_bytes;  // of a [memory] event
  std::optional<double> bandwidth;                                // of a copy or a fill, in GB/s

  bool is_span() const { return phase == "X" && start_ns && length_ns.value_or(-1) >= 0; }
};

struct TraceHeader {
  int rank = -1;  // among all processes; -1 if not given
  int processes = 0;
  std::string host;  // "" if not given
  int64_t base_ns = 0;
};

// Reads the file piece by piece, and hands `keep` every event. The header is complete when all is
// read. Errors, all InvalidArgument beginning with `file`: wrong or truncated JSON, a file that is
// no trace of torch's, a trace without a rank.
absl::Status ReadTraceEvents(std::istream& json, const std::string& file, TraceHeader* header,
                             const std::function<void(const TraceEvent&)>& keep);

}  // namespace stringline
