// Enqueued operations go to the issuer, which calls back (IssueSink) in an order that CUDA accepts.
// Every error of CUDA is a status; the first goes to Fail, and no more work is issued to the GPU
// after it.
#include "executor/cuda/device.h"

#include <string>
#include <utility>

#include "executor/cuda/cuda_error.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Make(int ordinal) {
  return Make({&ordinal, 1}, 1);
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Make(absl::Span<const int> ordinals,
                                                             int ranks, int sms_per_rank) {
  SL_ASSIGN_OR_RETURN(auto gpus, cuda::OpenedGpus::Make(ordinals, ranks, sms_per_rank));
  return std::unique_ptr<CudaDevice>(new CudaDevice(std::move(gpus)));
}

CudaDevice::CudaDevice(std::unique_ptr<cuda::OpenedGpus> gpus)
    : issuer_(this),
      gpus_(std::move(gpus)),
      memory_(gpus_.get()),
      streams_(gpus_.get(), &issuer_, &nvtx_),
      window_(gpus_.get(), &streams_),
      timing_(gpus_.get(), &streams_, &issuer_),
      captured_(gpus_.get(), &streams_, &issuer_, &timing_),
      deadline_(gpus_.get(), &streams_, &issuer_, &timing_) {}

// Errors are ignored.
CudaDevice::~CudaDevice() {
  (void)gpus_->Enter(0);
  deadline_.WaitQuietly();
  if (!deadline_.abandoned()) return;
  captured_.Abandon();
  timing_.Abandon();
  window_.Abandon();
  streams_.Abandon();
  memory_.Abandon();
  gpus_->Abandon();
}

void CudaDevice::Fail(absl::Status status) {
  if (!failure_.ok() || status.ok()) return;
  failure_ = std::move(status);
  if (give_up_ != nullptr) give_up_(give_up_self_, failure_);
}

StreamId CudaDevice::AddStream(LazyName name, int capacity, bool urgent) {
  StreamId id;
  Fail(streams_.AddStream(name, capacity, made_for_, made_on_, urgent, !failure_.ok(), &id));
  return id;
}

EventId CudaDevice::NewEvent(LazyName name) {
  EventId id;
  Fail(streams_.AddEvent(name, made_on_, !failure_.ok(), &id));
  return id;
}

absl::StatusOr<void*> CudaDevice::AllocateOn(int place, int64_t bytes) {
  SL_RETURN_IF_ERROR(failure_);
  bool is_failure = false;
  absl::StatusOr<void*> memory = memory_.Allocate(place, bytes, &is_failure);
  if (is_failure) Fail(memory.status());
  return memory;
}

absl::StatusOr<void*> CudaDevice::AllocateHost(int64_t bytes) {
  SL_RETURN_IF_ERROR(failure_);
  bool is_failure = false;
  absl::StatusOr<void*> memory = memory_.AllocateHost(bytes, &is_failure);
  if (is_failure) Fail(memory.status());
  return memory;
}

absl::Status CudaDevice::CopyNow(void* to, const void* from, int64_t bytes) {
  SL_RETURN_IF_ERROR(failure_);
  Fail(memory_.CopyNow(to, from, bytes));
  return failure_;
}

int64_t CudaDevice::NowNs() const { return stringline::NowNs(); }

void CudaDevice::Submit() {
  if (!failure_.ok()) return;
  Fail(gpus_->Enter(0));
  if (failure_.ok()) Fail(issuer_.Issue());
}

absl::Status CudaDevice::Synchronize() {
  Submit();
  if (failure_.ok()) Fail(issuer_.AllIssued());
  if (failure_.ok()) Fail(deadline_.Wait(captured_.replayed()));
  for (const cuda::DeviceCheck& check : checks_) {
    if (failure_.ok()) Fail(check.check(check.self));
  }
  if (failure_.ok()) Fail(timing_.Read());
  captured_.EndReplay();
  if (failure_.ok()) {
    issuer_.StartStep();
  } else {
    deadline_.WaitQuietly();
  }
  return failure_;
}

absl::StatusOr<int> CudaDevice::Capture() {
  SL_RETURN_IF_ERROR(failure_);
  return captured_.Capture([this] {
    absl::Status first;
    for (const cuda::DeviceCheck& check : checks_) {
      const absl::Status checked = check.check(check.self);
      if (first.ok()) first = checked;
    }
    return first;
  });
}

void CudaDevice::Replay(int captured) {
  if (!failure_.ok()) return;
  nvtx_.Enter({[](const void*, int64_t) { return std::string("a captured step"); }, nullptr, 0});
  Fail(captured_.Replay(captured));
  nvtx_.Enter({});
}

absl::Status CudaDevice::IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) {
  if (times != nullptr) SL_RETURN_IF_ERROR(NoteTime(stream, &times->start_ns));
  SL_RETURN_IF_ERROR(Launched(
      stream, [&work](cudaStream_t native) { work.run(work.self, work.argument, native); }));
  return times == nullptr ? absl::OkStatus() : NoteTime(stream, &times->end_ns);
}

absl::Status CudaDevice::Move(StreamId stream, void* to, const void* from, int64_t bytes) {
  if (bytes == 0 || to == from) return absl::OkStatus();
  const char* call = nullptr;
  const cudaError_t error = memory_.Copy(to, from, bytes, native(stream), &call);
  return streams_.Checked(error, call, stream);
}

}  // namespace stringline
