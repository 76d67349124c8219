// The branches of a captured graph that run side by side: each waits on the GPU until all have
// begun, so a graph ends in time only if all of them run at once. The number is doubled until a
// graph does not, and then halved in between.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/status.h"
#include "tools/gpu/branches.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

// As many kernels as an H100 holds at once.
constexpr int kMostBranches = 128;
constexpr int64_t kLimitNs = 50'000'000;

#define STRINGLINE_CUDA_CALL(...)                                                         \
  if (const cudaError_t error = (__VA_ARGS__); error != cudaSuccess) {                    \
    return absl::InternalError(absl::StrCat(#__VA_ARGS__, ": ", cuda::ErrorText(error))); \
  }

// Streams, an event each, and two counters on the GPU.
struct Branches {
  Branches() = default;
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;
  ~Branches() {
    for (const cudaEvent_t event : events) (void)cudaEventDestroy(event);
    for (const cudaStream_t stream : streams) (void)cudaStreamDestroy(stream);
    (void)cudaFree(counters);
  }
  absl::Status Make() {
    for (int i = 0; i <= kMostBranches; ++i) {
      cudaStream_t stream = nullptr;
      STRINGLINE_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      streams.push_back(stream);
      cudaEvent_t event = nullptr;
      STRINGLINE_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      events.push_back(event);
    }
    void* memory = nullptr;
    STRINGLINE_CUDA_CALL(cudaMalloc(&memory, 2 * sizeof(int32_t)));
    counters = static_cast<int32_t*>(memory);
    return absl::OkStatus();
  }

  std::vector<cudaStream_t> streams;  // the first is the trunk
  std::vector<cudaEvent_t> events;    // of the stream of the same index
  int32_t* counters = nullptr;        // begun, late
};

// Fills the counters, forks, and joins.
absl::Status Enqueue(const Branches& of, int branches) {
  const cudaStream_t trunk = of.streams[0];
  STRINGLINE_CUDA_CALL(cudaMemsetAsync(of.counters, 0, 2 * sizeof(int32_t), trunk));
  STRINGLINE_CUDA_CALL(cudaEventRecord(of.events[0], trunk));
  for (int i = 1; i <= branches; ++i) {
    STRINGLINE_CUDA_CALL(cudaStreamWaitEvent(of.streams[i], of.events[0], 0));
    STRINGLINE_CUDA_CALL(
        LaunchWaitingBranch({of.counters, of.counters + 1, branches, kLimitNs}, of.streams[i]));
    STRINGLINE_CUDA_CALL(cudaEventRecord(of.events[i], of.streams[i]));
    STRINGLINE_CUDA_CALL(cudaStreamWaitEvent(trunk, of.events[i], 0));
  }
  return absl::OkStatus();
}

absl::Status RunCaptured(const Branches& of, int branches) {
  const cudaStream_t trunk = of.streams[0];
  STRINGLINE_CUDA_CALL(cudaStreamBeginCapture(trunk, cudaStreamCaptureModeThreadLocal));
  const absl::Status enqueued = Enqueue(of, branches);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  STRINGLINE_CUDA_CALL(cudaStreamEndCapture(trunk, &graph));
  SL_RETURN_IF_ERROR(enqueued);
  const cudaError_t made = cudaGraphInstantiate(&exec, graph, 0);
  (void)cudaGraphDestroy(graph);
  STRINGLINE_CUDA_CALL(made);
  const cudaError_t launched = cudaGraphLaunch(exec, trunk);
  const cudaError_t ended = cudaStreamSynchronize(trunk);
  (void)cudaGraphExecDestroy(exec);
  STRINGLINE_CUDA_CALL(launched);
  STRINGLINE_CUDA_CALL(ended);
  return absl::OkStatus();
}

// True if all branches ran at once.
absl::StatusOr<bool> AllAtOnce(const Branches& of, int branches, bool captured) {
  if (captured) {
    SL_RETURN_IF_ERROR(RunCaptured(of, branches));
  } else {
    SL_RETURN_IF_ERROR(Enqueue(of, branches));
    STRINGLINE_CUDA_CALL(cudaStreamSynchronize(of.streams[0]));
  }
  int32_t counted[2] = {};
  STRINGLINE_CUDA_CALL(cudaMemcpy(counted, of.counters, sizeof(counted), cudaMemcpyDeviceToHost));
  if (counted[0] != branches) {
    return absl::DataLossError(absl::StrCat(counted[0], " of ", branches, " branches began"));
  }
  return counted[1] == 0;
}

#undef STRINGLINE_CUDA_CALL

absl::StatusOr<int> MostAtOnce(const Branches& of, bool captured) {
  int most = 0, too_many = kMostBranches + 1;
  while (too_many - most > 1) {
    const int next = most == 0                  ? 1
                     : too_many > kMostBranches ? std::min(2 * most, kMostBranches)
                                                : most + (too_many - most) / 2;
    SL_ASSIGN_OR_RETURN(const bool all, AllAtOnce(of, next, captured));
    (all ? most : too_many) = next;
  }
  return most;
}

}  // namespace

void CheckBranches(CheckRows* rows) {
  Branches branches;
  const absl::Status made = branches.Make();
  if (!made.ok()) return rows->Fail("branches", std::string(made.message()));
  for (const bool captured : {true, false}) {
    const char* const name = captured ? "branches of a captured graph" : "streams, not captured";
    const absl::StatusOr<int> most = MostAtOnce(branches, captured);
    if (!most.ok()) {
      rows->Fail(name, std::string(most.status().message()));
    } else {
      rows->Pass(name, absl::StrCat(*most, *most == kMostBranches ? " or more" : "",
                                    " wait side by side"));
    }
  }
}

}  // namespace stringline
