// A trace of a rank by PyTorch's profiler, reduced to the parts that tell a pipeline's step.
//
// The file is one JSON object in Chrome's format, as Kineto writes it: `distributedInfo` with the
// rank, `baseTimeNanoseconds`, and `traceEvents`, of which these are kept:
//
//   cat                      name            meaning here
//   user_annotation          PP:2F0          an action of torch's pipeline runtime, as the host
//                                            performed it
//   user_annotation          ProfilerStep#3  a step, as the profiler counts
//   user_annotation          gloo:recv       a message or a collective of gloo, until the end of
//                                            the wait for it
//   cpu_op                   c10d::send      the handover of a message to torch.distributed
//   cuda_runtime, …_driver   any             a launch, by args.correlation
//   any with args.stream     any             work of a GPU
//
// Times are nanoseconds of the host's clock: baseTimeNanoseconds and `ts`, microseconds read digit
// by digit.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct TimeSpan {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct NamedSpan : TimeSpan {
  std::string name;
};

// Kinds of a GPU's work, by names as in Holistic Trace Analysis.
enum class DeviceWork : uint8_t { kComputation, kCommunication, kMemory, kOther };
DeviceWork DeviceWorkOf(absl::string_view name);

struct DeviceSpan : TimeSpan {
  DeviceWork work = DeviceWork::kComputation;
  bool runs = true;          // a kernel, a copy or a fill, and no wait for one
  int64_t launched_ns = 0;   // by the host; its own start if the launch is not in the trace
  int64_t correlation = -1;  // with its launch
};

struct RankTrace {
  std::string file;  // for messages
  int rank = -1;     // among all processes
  int processes = 0;
  std::string host;                // "" if not given
  std::vector<NamedSpan> actions;  // without "PP:"; this and all below by start
  std::vector<NamedSpan> steps;    // "3" of ProfilerStep#3
  std::vector<NamedSpan> gloo;     // "send" of gloo:send
  std::vector<TimeSpan> sends;     // c10d::send
  std::vector<DeviceSpan> device;
};

// Reads the file piece by piece; only a small part is kept. Errors, all InvalidArgument beginning
// with `file`: wrong or truncated JSON, a file that is no trace of torch's, a trace without a rank
// or without a PP: range.
absl::StatusOr<RankTrace> ReadRankTrace(std::istream& json, const std::string& file);

}  // namespace stringline
