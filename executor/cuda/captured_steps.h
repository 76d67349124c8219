// Steps captured as CUDA graphs. All streams, of all GPUs, are forked from the first GPU's own
// stream and joined to it again, so a step is one graph; a replay takes a few microseconds of host
// time, however many kernels it has.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/cuda/device_streams.h"
#include "executor/cuda/issue.h"
#include "executor/cuda/opened_gpus.h"
#include "executor/cuda/progress.h"
#include "executor/cuda/timing_events.h"

namespace stringline::cuda {

class CapturedSteps {
 public:
  CapturedSteps(OpenedGpus* gpus, DeviceStreams* streams, Issuer* issuer, TimingEvents* timing)
      : gpus_(gpus), streams_(streams), issuer_(issuer), timing_(timing) {}
  ~CapturedSteps() { Forget(); }
  CapturedSteps(const CapturedSteps&) = delete;
  CapturedSteps& operator=(const CapturedSteps&) = delete;

  // Issues the enqueued step into a graph, and returns its index. `check` is called at the end of
  // the capture; its error, or any other, is the reason why the step cannot be captured: then it
  // stays enqueued.
  absl::StatusOr<int> Capture(absl::FunctionRef<absl::Status()> check);
  // True while a step is captured.
  bool capturing() const { return capturing_; }
  // Enqueues a captured step.
  absl::Status Replay(int captured);
  // The ops of the replayed step, until EndReplay; null: none.
  const StepOps* replayed() const { return replayed_ < 0 ? nullptr : &steps_[replayed_].ops; }
  void EndReplay() { replayed_ = -1; }
  // Destroys the graphs; a running graph still completes. No more Replay.
  void Forget();
  // Leaks everything.
  void Abandon() { steps_.clear(); }

 private:
  struct Step {
    cudaGraphExec_t graph = nullptr;
    std::vector<NotedTime> times;
    StepOps ops;
  };
  absl::Status CaptureInto(cudaGraphExec_t* graph, absl::FunctionRef<absl::Status()> check);
  absl::Status IssueForked();

  OpenedGpus* const gpus_;
  DeviceStreams* const streams_;
  Issuer* const issuer_;
  TimingEvents* const timing_;
  std::vector<Step> steps_;
  bool capturing_ = false;
  int replayed_ = -1;  // index of the replayed step
};

}  // namespace stringline::cuda
