// A trace that PyTorch's profiler wrote of one rank, as far as a step of a pipeline is told by it.
//
// The file is one JSON object in Chrome's format, as Kineto writes it: `distributedInfo` with the
// rank, `baseTimeNanoseconds`, and `traceEvents`, of which these are kept:
//
//   cat                      name            what it is here
//   user_annotation          PP:2F0          an action of torch's pipeline runtime, as the host
//                                            performed it
//   user_annotation          ProfilerStep#3  a step, as the profiler counts
//   user_annotation          gloo:recv       a message or a collective of gloo, until it was waited
//                                            for
//   cpu_op                   c10d::send      when a message was given to torch.distributed
//   cuda_runtime, …_driver   any             a launch, by args.correlation
//   any with args.stream     any             what a GPU did
//
// Times are nanoseconds of the host's clock: baseTimeNanoseconds and `ts`, microseconds that are
// read digit by digit.
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

// What a GPU does, told by names as Holistic Trace Analysis tells it.
enum class DeviceWork : uint8_t { kComputation, kCommunication, kMemory, kOther };
DeviceWork DeviceWorkOf(absl::string_view name);

struct DeviceSpan : TimeSpan {
  DeviceWork work = DeviceWork::kComputation;
  bool runs = true;          // a kernel, a copy or a fill, and no wait for one
  int64_t launched_ns = 0;   // by the host; where that is not in the trace, its own start
  int64_t correlation = -1;  // with its launch
};

struct RankTrace {
  std::string file;  // for messages
  int rank = -1;     // among all processes
  int processes = 0;
  std::string host;                // "" where it is not said
  std::vector<NamedSpan> actions;  // without "PP:"; this and all below by start
  std::vector<NamedSpan> steps;    // "3" of ProfilerStep#3
  std::vector<NamedSpan> gloo;     // "send" of gloo:send
  std::vector<TimeSpan> sends;     // c10d::send
  std::vector<DeviceSpan> device;
};

// Reads it piece by piece; what is kept of a file is a small part of it. Errors, all of them
// InvalidArgument beginning with `file`: JSON that is wrong or ends early, no trace of torch's, one
// without a rank, without a PP: range.
absl::StatusOr<RankTrace> ReadRankTrace(std::istream& json, const std::string& file);

}  // namespace stringline
