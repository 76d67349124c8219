// One thread issues all of a capture, since two captures could not wait for each other.
#include "executor/cuda/captured_steps.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {

absl::StatusOr<int> CapturedSteps::Capture(absl::FunctionRef<absl::Status()> check) {
  for (int s = 0; s < issuer_->streams(); ++s) {
    SL_CHECK(!issuer_->Used(StreamId(s)))
        << issuer_->NameOf(StreamId(s)) << " was submitted already";
  }
  Step step;
  const absl::Status status = CaptureInto(&step.graph, check);
  step.times.assign(timing_->noted().begin(), timing_->noted().end());
  timing_->Forget();
  if (!status.ok()) {
    issuer_->Rewind();
    return absl::Status(status.code(),
                        absl::StrCat("the step cannot be captured: ", status.message()));
  }
  step.ops = issuer_->Ops();
  issuer_->StartStep();
  steps_.push_back(std::move(step));
  return static_cast<int>(steps_.size()) - 1;
}

absl::Status CapturedSteps::CaptureInto(cudaGraphExec_t* exec,
                                        absl::FunctionRef<absl::Status()> check) {
  SL_RETURN_IF_ERROR(gpus_->Enter(0));
  const cudaStream_t own = gpus_->own(0);
  SL_RETURN_IF_ERROR(Checked(cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal),
                             "cudaStreamBeginCapture"));
  capturing_ = true;
  absl::Status status = IssueForked();
  capturing_ = false;
  // Ended also after a failed call, to free the streams.
  cudaGraph_t graph = nullptr;
  const absl::Status ended = Checked(cudaStreamEndCapture(own, &graph), "cudaStreamEndCapture");
  if (status.ok()) status = ended;
  const absl::Status checked = check();
  if (status.ok()) status = checked;
  if (status.ok()) {
    // Without the flag streams would lose their priorities in the graph.
    status = Checked(cudaGraphInstantiate(exec, graph, cudaGraphInstantiateFlagUseNodePriority),
                     "cudaGraphInstantiate");
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  if (status.ok()) status = Checked(cudaGraphUpload(*exec, own), "cudaGraphUpload");
  if (!status.ok() && *exec != nullptr) (void)cudaGraphExecDestroy(std::exchange(*exec, nullptr));
  // An error already reported, or irrelevant, must not be attributed to a later launch.
  (void)cudaGetLastError();
  return status;
}

// Issues a step from the fork of all streams to their join.
absl::Status CapturedSteps::IssueForked() {
  const cudaStream_t own = gpus_->own(0);
  const cudaEvent_t fork = gpus_->order(0);
  SL_RETURN_IF_ERROR(Checked(cudaEventRecord(fork, own), "cudaEventRecord"));
  for (int s = 0; s < issuer_->streams(); ++s) {
    const StreamId stream(s);
    if (!issuer_->Enqueued(stream)) continue;
    SL_RETURN_IF_ERROR(
        streams_->Checked(cudaStreamWaitEvent(streams_->native(stream), fork, cudaEventWaitDefault),
                          "cudaStreamWaitEvent", stream));
  }
  SL_RETURN_IF_ERROR(issuer_->Issue());
  SL_RETURN_IF_ERROR(issuer_->AllIssued());
  for (int s = 0; s < issuer_->streams(); ++s) {
    const StreamId stream(s);
    if (!issuer_->Enqueued(stream)) continue;
    const cudaEvent_t order = gpus_->order(streams_->place_of(stream));
    SL_RETURN_IF_ERROR(streams_->Checked(cudaEventRecord(order, streams_->native(stream)),
                                         "cudaEventRecord", stream));
    SL_RETURN_IF_ERROR(streams_->Checked(cudaStreamWaitEvent(own, order, cudaEventWaitDefault),
                                         "cudaStreamWaitEvent", stream));
  }
  return absl::OkStatus();
}

void CapturedSteps::Forget() {
  for (Step& step : steps_) {
    if (step.graph != nullptr) (void)cudaGraphExecDestroy(step.graph);
    step.graph = nullptr;
  }
}

absl::Status CapturedSteps::Replay(int captured) {
  SL_CHECK(timing_->noted().empty() && replayed_ < 0) << "something of this step runs already";
  const Step& step = steps_[captured];
  SL_CHECK(step.graph != nullptr) << "this step was forgotten";
  SL_RETURN_IF_ERROR(gpus_->Enter(0));
  if (!step.times.empty()) SL_RETURN_IF_ERROR(timing_->Start());
  SL_RETURN_IF_ERROR(Checked(cudaGraphLaunch(step.graph, gpus_->own(0)), "cudaGraphLaunch"));
  timing_->Replay(step.times);
  replayed_ = captured;
  return absl::OkStatus();
}

}  // namespace stringline::cuda
