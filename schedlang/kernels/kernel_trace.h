// A trace of a rank by PyTorch's profiler, reduced to the work of its GPU, the host's calls, and
// samples of memory: flat columns, with names in a table.
//
// The figures of this folder are those of Holistic Trace Analysis 0.5, and are counted as there,
// unless a header says otherwise. They are of a part of the trace: of the calls that begin in one
// step of the profiler, and the work that these launch; or, without a number, of all before the
// last step, whose work may be cut, and of the whole trace if it has a single step or none.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/torch/rank_trace.h"

namespace stringline {

constexpr uint32_t kNoCall = UINT32_MAX;

struct HostCall : TimeSpan {  // an operator, a range, a function, or a call of CUDA
  uint32_t name = 0;          // index into names
  uint32_t thread = 0;        // numbered from 0
  int64_t correlation = -1;   // with work of a GPU
  bool launches = false;      // cudaLaunchKernel and its like
  bool is_step = false;       // ProfilerStep#N
  bool on_device = false;     // a range as Kineto shows it beside a GPU's work
};

struct DeviceRun : TimeSpan {
  uint32_t name = 0;
  int stream = 0;
  int64_t process = 0;  // the number under which the trace shows the GPU
  int64_t correlation = -1;
  uint32_t call = kNoCall;  // index into calls: the call with this correlation
  DeviceWork work = DeviceWork::kComputation;
  bool runs = true;              // a kernel, a copy or a fill, and no wait for one
  double gigabytes_per_s = 0.0;  // of copies and fills
};

struct MemorySample {  // behind an allocation or a release
  int64_t at_ns = 0;
  int64_t allocated_bytes = 0, reserved_bytes = 0;
  int device_type = 0;  // as torch numbers: 0 the host, 1 CUDA
  int device = 0;
};

struct KernelTrace {
  std::string file;
  int rank = -1;
  int64_t base_ns = 0;  // the time that the file calls 0
  std::vector<std::string> names;
  std::vector<HostCall> calls;  // this and all below by start
  std::vector<DeviceRun> runs;
  std::vector<MemorySample> samples;
  std::vector<NamedSpan> steps;  // "3" of ProfilerStep#3
};

// The whole trace. Errors: those of ReadTraceEvents.
absl::StatusOr<KernelTrace> ReadKernelTrace(std::istream& json, const std::string& file);

// The part of a step, or the default part. Error: InvalidArgument, naming the file, for a step that
// the trace lacks.
absl::StatusOr<KernelTrace> PartOf(KernelTrace trace, std::optional<int> step);

// The time of its first call, work or sample; 0 if it has none.
int64_t FirstNs(const KernelTrace& trace);

}  // namespace stringline
