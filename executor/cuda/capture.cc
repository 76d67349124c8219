// The part of the CUDA device that captures a step as a graph and replays it. All streams, of all
// GPUs, are forked from the first GPU's own one and joined to it again, so they make one graph; one
// thread issues all of it, since two captures could not wait for each other.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "executor/cuda/device.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<int> CudaDevice::Capture() {
  SL_RETURN_IF_ERROR(failure_);
  for (int s = 0; s < issuer_.streams(); ++s) {
    SL_CHECK(!issuer_.Used(StreamId(s))) << issuer_.NameOf(StreamId(s)) << " was submitted already";
  }
  const cudaStream_t own = gpus_[0].own;
  current_ = -1;
  absl::Status status = Enter(0);
  if (status.ok()) {
    status = Checked(cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal),
                     "cudaStreamBeginCapture");
  }
  CapturedStep step;
  if (status.ok()) {
    capturing_ = true;
    status = IssueCaptured();
    capturing_ = false;
    // Ended also where a call failed: the streams are free again.
    cudaGraph_t graph = nullptr;
    const absl::Status ended = Checked(cudaStreamEndCapture(own, &graph), "cudaStreamEndCapture");
    if (status.ok()) status = ended;
    for (const Check& check : checks_) {
      const absl::Status checked = check.check(check.self);
      if (status.ok()) status = checked;
    }
    if (status.ok()) {
      // Otherwise streams would have no priorities in it.
      status =
          Checked(cudaGraphInstantiate(&step.graph, graph, cudaGraphInstantiateFlagUseNodePriority),
                  "cudaGraphInstantiate");
    }
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    if (status.ok()) status = Checked(cudaGraphUpload(step.graph, own), "cudaGraphUpload");
    if (!status.ok() && step.graph != nullptr) (void)cudaGraphExecDestroy(step.graph);
    // An error that is told, or does not matter, shall not be taken for that of a later launch.
    (void)cudaGetLastError();
  }
  step.times.assign(times_.begin(), times_.begin() + static_cast<ptrdiff_t>(noted_));
  ForgetTimes();
  if (!status.ok()) {
    issuer_.Rewind();
    return absl::Status(status.code(),
                        absl::StrCat("the step cannot be captured: ", status.message()));
  }
  step.ops = issuer_.Ops();
  issuer_.StartStep();
  captured_.push_back(std::move(step));
  return static_cast<int>(captured_.size()) - 1;
}

absl::Status CudaDevice::IssueCaptured() {
  const Gpu& first = gpus_[0];
  SL_RETURN_IF_ERROR(Checked(cudaEventRecord(first.order, first.own), "cudaEventRecord"));
  for (int s = 0; s < issuer_.streams(); ++s) {
    const StreamId stream(s);
    if (!issuer_.Enqueued(stream)) continue;
    SL_RETURN_IF_ERROR(
        Checked(cudaStreamWaitEvent(native(stream), first.order, cudaEventWaitDefault),
                "cudaStreamWaitEvent", stream));
  }
  SL_RETURN_IF_ERROR(issuer_.Issue());
  SL_RETURN_IF_ERROR(issuer_.AllIssued());
  for (int s = 0; s < issuer_.streams(); ++s) {
    const StreamId stream(s);
    if (!issuer_.Enqueued(stream)) continue;
    const cudaEvent_t order = GpuOf(stream).order;
    SL_RETURN_IF_ERROR(Checked(cudaEventRecord(order, native(stream)), "cudaEventRecord", stream));
    SL_RETURN_IF_ERROR(Checked(cudaStreamWaitEvent(first.own, order, cudaEventWaitDefault),
                               "cudaStreamWaitEvent", stream));
  }
  return absl::OkStatus();
}

void CudaDevice::ForgetCaptured() {
  for (CapturedStep& step : captured_) {
    if (step.graph != nullptr) (void)cudaGraphExecDestroy(step.graph);
    step.graph = nullptr;
  }
}

void CudaDevice::Replay(int captured) {
  if (!failure_.ok()) return;
  SL_CHECK(noted_ == 0 && !replaying()) << "something of this step runs already";
  const CapturedStep& step = captured_[captured];
  SL_CHECK(step.graph != nullptr) << "this step was forgotten";
  current_ = -1;
  Fail(Enter(0));
  if (failure_.ok() && !step.times.empty()) Fail(StartTimes());
  nvtx_.Enter({[](const void*, int64_t) { return std::string("a captured step"); }, nullptr, 0});
  if (failure_.ok()) Fail(Checked(cudaGraphLaunch(step.graph, gpus_[0].own), "cudaGraphLaunch"));
  nvtx_.Enter({});
  if (!failure_.ok()) return;
  std::copy(step.times.begin(), step.times.end(), times_.begin());
  noted_ = step.times.size();
  replayed_ = captured;
}

}  // namespace stringline
