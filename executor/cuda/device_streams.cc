#include "executor/cuda/device_streams.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {

// Errors are ignored.
DeviceStreams::~DeviceStreams() {
  for (const cudaStream_t stream : natives_) {
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }
  for (const cudaEvent_t event : events_) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
}

void DeviceStreams::Abandon() {
  natives_.clear();
  events_.clear();
}

absl::Status DeviceStreams::AddStream(LazyName name, int capacity, int rank, int place, bool urgent,
                                      bool failed, StreamId* stream) {
  *stream = issuer_->NewStream(name, capacity);
  places_.push_back(place);
  cudaStream_t& native = natives_.emplace_back(nullptr);
  if (failed) return absl::OkStatus();
  SL_RETURN_IF_ERROR(gpus_->Enter(place));
  const int priority = urgent ? gpus_->greatest_priority() : gpus_->least_priority();
  const SmGroups* const groups = urgent ? nullptr : gpus_->groups(place);
  if (groups != nullptr) {
    const int group = gpus_->GroupOfRank(rank, place);
    SL_ASSIGN_OR_RETURN(native, groups->NewStream(group, priority));
  } else {
    SL_RETURN_IF_ERROR(
        Checked(cudaStreamCreateWithPriority(&native, cudaStreamNonBlocking, priority),
                "cudaStreamCreateWithPriority", *stream));
  }
  if (name.print != nullptr) nvtx_->NameStream(native, Print(name));
  return absl::OkStatus();
}

absl::Status DeviceStreams::AddEvent(LazyName name, int place, bool failed, EventId* event) {
  *event = issuer_->NewEvent(name);
  cudaEvent_t& made = events_.emplace_back(nullptr);
  if (failed) return absl::OkStatus();
  SL_RETURN_IF_ERROR(gpus_->Enter(place));
  return cuda::Checked(cudaEventCreateWithFlags(&made, cudaEventDisableTiming),
                       "cudaEventCreateWithFlags");
}

absl::Status DeviceStreams::Checked(cudaError_t error, const char* call, StreamId stream) const {
  if (error == cudaSuccess) return absl::OkStatus();
  return cuda::Checked(error, call,
                       stream.valid() ? absl::StrCat(" on ", issuer_->NameOf(stream)) : "");
}

absl::Status DeviceStreams::Record(StreamId stream, EventId of) const {
  return Checked(cudaEventRecord(event(of), native(stream)), "cudaEventRecord", stream);
}

absl::Status DeviceStreams::Wait(StreamId stream, EventId of) const {
  return Checked(cudaStreamWaitEvent(native(stream), event(of), cudaEventWaitDefault),
                 "cudaStreamWaitEvent", stream);
}

// A single event per GPU suffices: a wait refers to the event's latest record at the time of the
// call, whatever is recorded later.
absl::Status DeviceStreams::Order(StreamId before, StreamId after) const {
  const cudaEvent_t order = gpus_->order(place_of(before));
  SL_RETURN_IF_ERROR(Checked(cudaEventRecord(order, native(before)), "cudaEventRecord", before));
  return Checked(cudaStreamWaitEvent(native(after), order, cudaEventWaitDefault),
                 "cudaStreamWaitEvent", after);
}

absl::Status DeviceStreams::LaunchError(StreamId stream) const {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string action = issuer_->Issuing(stream);
  return Checked(error, action.empty() ? "work" : absl::StrCat("work of ", action).c_str(), stream);
}

}  // namespace stringline::cuda
