// Traces written again, with curves as counters: generate_trace_with_counters.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/kernels/kernel_trace.h"

namespace stringline {

// The text of the trace file, byte for byte, with counter events at the end of traceEvents: "Queue
// Length" of each stream, and the rate of each kind of copy ("Memcpy BW"), of `part`, which comes
// from the same file. Error: InvalidArgument, naming the file, for a text without traceEvents.
absl::StatusOr<std::string> WithCounters(std::istream& json, const KernelTrace& part);

}  // namespace stringline
