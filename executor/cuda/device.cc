#include "executor/cuda/device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/clock.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Make(int ordinal) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    (void)cudaGetLastError();
    return absl::UnavailableError(
        absl::StrCat("no GPU can be used: ", cudaGetErrorString(error),
                     error == cudaErrorInsufficientDriver
                         ? "; NVIDIA's driver is missing, or too old for CUDA 13"
                         : ""));
  }
  if (ordinal < 0 || ordinal >= devices) {
    return absl::UnavailableError(
        absl::StrCat("there is no GPU ", ordinal, ": this machine has ", devices));
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
  SL_RETURN_IF_ERROR(device->Start());
  return device;
}

absl::Status CudaDevice::Start() {
  SL_RETURN_IF_ERROR(Checked(cudaSetDevice(ordinal_), "cudaSetDevice"));
  SL_RETURN_IF_ERROR(
      Checked(cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_),
              "cudaDeviceGetStreamPriorityRange"));
  SL_RETURN_IF_ERROR(
      Checked(cudaStreamCreateWithPriority(&own_, cudaStreamNonBlocking, greatest_priority_),
              "cudaStreamCreateWithPriority"));
  SL_RETURN_IF_ERROR(Checked(cudaEventCreateWithFlags(&order_, cudaEventDisableTiming),
                             "cudaEventCreateWithFlags"));
  return Checked(cudaEventCreateWithFlags(&base_, cudaEventDefault), "cudaEventCreateWithFlags");
}

// Errors mean nothing any more.
CudaDevice::~CudaDevice() {
  (void)cudaSetDevice(ordinal_);
  if (!quiet_) WaitQuietly();
  if (abandoned_) return;
  for (const cudaStream_t stream : natives_) {
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }
  if (own_ != nullptr) (void)cudaStreamDestroy(own_);
  ForgetCaptured();
  for (const cudaEvent_t event : events_) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
  for (const cudaEvent_t event : timing_) (void)cudaEventDestroy(event);
  if (order_ != nullptr) (void)cudaEventDestroy(order_);
  if (base_ != nullptr) (void)cudaEventDestroy(base_);
  for (void* const piece : memory_) (void)cudaFree(piece);
  for (void* const piece : host_memory_) (void)cudaFreeHost(piece);
  (void)cudaGetLastError();
}

absl::Status CudaDevice::Checked(cudaError_t error, const char* call) const {
  return Checked(error, call, StreamId());
}

absl::Status CudaDevice::Checked(cudaError_t error, const char* call, StreamId stream) const {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string where =
      stream.valid() ? absl::StrCat(" on ", issuer_.NameOf(stream)) : std::string();
  const std::string text = absl::StrCat(call, where, ": ", cudaGetErrorString(error), " (",
                                        cudaGetErrorName(error), ")");
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                            : absl::InternalError(text);
}

void CudaDevice::Fail(absl::Status status) {
  if (!failure_.ok() || status.ok()) return;
  failure_ = std::move(status);
  if (give_up_ != nullptr) give_up_(give_up_self_, failure_);
}

StreamId CudaDevice::NewStream(LazyName name, int capacity) {
  return AddStream(name, capacity, least_priority_);
}

StreamId CudaDevice::NewUrgentStream(LazyName name, int capacity) {
  return AddStream(name, capacity, greatest_priority_);
}

StreamId CudaDevice::AddStream(LazyName name, int capacity, int priority) {
  const StreamId id = issuer_.NewStream(name, capacity);
  cudaStream_t stream = nullptr;
  if (failure_.ok()) {
    Fail(Checked(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
                 "cudaStreamCreateWithPriority", id));
  }
  natives_.push_back(stream);
  if (stream != nullptr && name.print != nullptr) nvtx_.NameStream(stream, Print(name));
  return id;
}

EventId CudaDevice::NewEvent(LazyName name) {
  cudaEvent_t event = nullptr;
  if (failure_.ok()) {
    Fail(Checked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags"));
  }
  events_.push_back(event);
  return issuer_.NewEvent(name);
}

AvailableMemory CudaDevice::available() const {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};  // whoever takes memory learns what is wrong
  }
  return {static_cast<int64_t>(free), "the GPU's free memory"};
}

absl::StatusOr<void*> CudaDevice::Allocate(int64_t bytes) {
  SL_RETURN_IF_ERROR(failure_);
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free = 0, total = 0;
    SL_RETURN_IF_ERROR(Checked(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes,
                                                     " bytes of GPU memory: ", free, " of ", total,
                                                     " bytes are free"));
  }
  Fail(Checked(error, "cudaMalloc"));
  SL_RETURN_IF_ERROR(failure_);
  memory_.push_back(memory);
  // Streams that do not wait for the legacy one would not see what it sets to zero.
  Fail(Checked(cudaMemsetAsync(memory, 0, size, own_), "cudaMemsetAsync"));
  if (failure_.ok()) Fail(Checked(cudaStreamSynchronize(own_), "cudaStreamSynchronize"));
  SL_RETURN_IF_ERROR(failure_);
  return memory;
}

absl::StatusOr<void*> CudaDevice::AllocateHost(int64_t bytes) {
  SL_RETURN_IF_ERROR(failure_);
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const cudaError_t error = cudaHostAlloc(&memory, size, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes of pinned memory"));
  }
  Fail(Checked(error, "cudaHostAlloc"));
  SL_RETURN_IF_ERROR(failure_);
  host_memory_.push_back(memory);
  std::memset(memory, 0, size);
  return memory;
}

// It is not on the legacy stream, with which others of the process may have work.
absl::Status CudaDevice::CopyNow(void* to, const void* from, int64_t bytes) {
  SL_RETURN_IF_ERROR(failure_);
  const auto size = static_cast<size_t>(bytes);
  Fail(Checked(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, own_), "cudaMemcpyAsync"));
  if (failure_.ok()) Fail(Checked(cudaStreamSynchronize(own_), "cudaStreamSynchronize"));
  return failure_;
}

void CudaDevice::Launch(StreamId stream, const Work& work, WorkTimes* times) {
  issuer_.Launch(stream, work, times);
}

void CudaDevice::Copy(StreamId stream, void* to, const void* from, int64_t bytes) {
  issuer_.Copy(stream, to, from, bytes);
}

void CudaDevice::Record(StreamId stream, EventId event) { issuer_.Record(stream, event); }

void CudaDevice::Wait(StreamId stream, EventId event) { issuer_.Wait(stream, event); }

void CudaDevice::Mark(StreamId stream, const LazyName& name) { issuer_.Mark(stream, name); }

void CudaDevice::Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end) {
  issuer_.Meet(stream, meeting, side, end);
}

void CudaDevice::AddCheck(absl::Status (*check)(const void* self), const void* self) {
  checks_.push_back({check, self});
}

int64_t CudaDevice::NowNs() const { return stringline::NowNs(); }

void CudaDevice::Submit() {
  if (!failure_.ok()) return;
  Fail(Checked(cudaSetDevice(ordinal_), "cudaSetDevice"));
  if (failure_.ok()) Fail(issuer_.Issue());
}

absl::Status CudaDevice::Synchronize() {
  Submit();
  if (failure_.ok()) Fail(issuer_.AllIssued());
  if (failure_.ok()) Fail(WaitForStreams());
  for (const Check& check : checks_) {
    if (failure_.ok()) Fail(check.check(check.self));
  }
  if (failure_.ok()) Fail(ReadTimes());
  replayed_ = -1;
  if (failure_.ok()) {
    issuer_.StartStep();
  } else if (!quiet_) {
    WaitQuietly();
    quiet_ = true;
  }
  return failure_;
}

absl::Status CudaDevice::ReadTimes() {
  for (size_t i = 0; i < noted_; ++i) {
    float ms = 0;
    SL_RETURN_IF_ERROR(
        Checked(cudaEventElapsedTime(&ms, base_, timing_[i]), "cudaEventElapsedTime"));
    *times_[i].ns = base_ns_ + std::llround(double{ms} * 1e6);
  }
  noted_ = 0;
  return absl::OkStatus();
}

absl::Status CudaDevice::IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) {
  if (times != nullptr) SL_RETURN_IF_ERROR(NoteTime(stream, &times->start_ns));
  work.run(work.self, work.argument, native(stream));
  SL_RETURN_IF_ERROR(LaunchError(stream));
  return times == nullptr ? absl::OkStatus() : NoteTime(stream, &times->end_ns);
}

absl::Status CudaDevice::IssueCopy(StreamId stream, void* to, const void* from, int64_t bytes) {
  return Move(stream, to, from, bytes);
}

absl::Status CudaDevice::IssueRecord(StreamId stream, EventId event) {
  return Checked(cudaEventRecord(events_[event.value], native(stream)), "cudaEventRecord", stream);
}

absl::Status CudaDevice::IssueWait(StreamId stream, EventId event) {
  return Checked(cudaStreamWaitEvent(native(stream), events_[event.value], cudaEventWaitDefault),
                 "cudaStreamWaitEvent", stream);
}

// One event does for all: who waits for it, waits for what was recorded last, whatever is later.
absl::Status CudaDevice::Order(StreamId before, StreamId after) {
  SL_RETURN_IF_ERROR(Checked(cudaEventRecord(order_, native(before)), "cudaEventRecord", before));
  return Checked(cudaStreamWaitEvent(native(after), order_, cudaEventWaitDefault),
                 "cudaStreamWaitEvent", after);
}

absl::Status CudaDevice::Move(StreamId stream, void* to, const void* from, int64_t bytes) {
  if (bytes == 0 || to == from) return absl::OkStatus();
  return Checked(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, native(stream)),
      "cudaMemcpyAsync", stream);
}

absl::Status CudaDevice::NoteTime(StreamId stream, int64_t* ns) {
  if (noted_ == 0 && !capturing_) SL_RETURN_IF_ERROR(StartTimes());
  if (noted_ == timing_.size()) {
    cudaEvent_t event = nullptr;
    SL_RETURN_IF_ERROR(
        Checked(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags"));
    timing_.push_back(event);
    times_.push_back({});
  }
  times_[noted_] = {ns, {stream, issuer_.At(stream)}};
  // Without the flag an event in a graph only orders, and has no time.
  return Checked(
      cudaEventRecordWithFlags(timing_[noted_++], native(stream),
                               capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault),
      "cudaEventRecord", stream);
}

absl::Status CudaDevice::StartTimes() {
  base_ns_ = NowNs();
  return Checked(cudaEventRecord(base_, own_), "cudaEventRecord");
}

absl::Status CudaDevice::LaunchError(StreamId stream) {
  return Checked(cudaGetLastError(), "work", stream);
}

}  // namespace stringline
