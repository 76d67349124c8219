// A trace of a rank by PyTorch's profiler, reduced to the parts that tell a pipeline's step.
//
// Events of the file (trace_events.h) that are kept:
//
//   cat                      name                 meaning here
//   user_annotation          PP:2F0               an action of torch's pipeline runtime, as the
//                                                 host performed it
//   user_annotation          ProfilerStep#3       a step, as the profiler counts
//   user_annotation          gloo:recv            a message or a collective of gloo, until the end
//                                                 of the wait for it
//   cpu_op                   c10d::send           the handover of a message to torch.distributed
//   cuda_runtime, …_driver   any                  a launch, by args.correlation
//   any with args.stream     any                  work of a GPU
//
// Without PP: ranges also the records in which find_actions.h finds the actions:
//
//   cpu_op                   c10d::send, c10d::recv_
//   cpu_op                   autograd::engine::evaluate_function: …, and operators that autograd
//                            has numbered (args' "Sequence number")
//   python_function          forward_one_chunk, backward_one_chunk and _maybe_compute_loss of
//                            torch/distributed/pipelining
//
// Times are nanoseconds of the host's clock.
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

struct HostRecord : TimeSpan {
  enum class Kind : uint8_t {
    kOperator,  // of a forward, as numbered by autograd
    kNode,      // of autograd's graph, evaluated
    kSend,
    kRecv,
    kForwardCall,   // forward_one_chunk
    kLossCall,      // _maybe_compute_loss
    kBackwardCall,  // backward_one_chunk
  };
  Kind kind = Kind::kOperator;
  int64_t sequence =
      -1;  // autograd's number of a node, and of the next node when the operator began
  int64_t thread = 0;
};

struct RankTrace {
  std::string file;  // for messages
  int rank = -1;     // among all processes
  int processes = 0;
  std::string host;                 // "" if not given
  std::vector<NamedSpan> actions;   // without "PP:"; this and all below by start
  std::vector<NamedSpan> steps;     // "3" of ProfilerStep#3
  std::vector<NamedSpan> gloo;      // "send" of gloo:send
  std::vector<TimeSpan> sends;      // c10d::send
  std::vector<HostRecord> records;  // none in a trace with PP: ranges
  std::vector<DeviceSpan> device;
  // Times at which the host began to wait for the input of actions that find_actions.h has found;
  // empty if the trace names its actions.
  std::vector<int64_t> waits_from_ns;
};

// Errors: those of ReadTraceEvents.
absl::StatusOr<RankTrace> ReadRankTrace(std::istream& json, const std::string& file);

}  // namespace stringline
