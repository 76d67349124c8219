// What is enqueued goes to the issuer, which calls back here (IssueSink) in an order that CUDA can
// take. Every error of CUDA becomes a status in Checked; the first one goes to Fail, and nothing
// more is given to the GPU after it.
#include "executor/cuda/device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "executor/clock.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Make(int ordinal) {
  return Make({&ordinal, 1}, 1);
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Make(absl::Span<const int> ordinals,
                                                             int ranks, int sms_per_rank) {
  SL_ASSIGN_OR_RETURN(cuda::Reach reach, cuda::OpenGpus(ordinals));
  std::unique_ptr<CudaDevice> device(
      new CudaDevice(ordinals, ranks, sms_per_rank, std::move(reach)));
  SL_RETURN_IF_ERROR(device->Start());
  return device;
}

CudaDevice::CudaDevice(absl::Span<const int> ordinals, int ranks, int sms_per_rank,
                       cuda::Reach reach)
    : reach_(std::move(reach)), ranks_(ranks), sms_per_rank_(sms_per_rank), issuer_(this) {
  for (const int ordinal : ordinals) gpus_.emplace_back().ordinal = ordinal;
}

absl::Status CudaDevice::Enter(int place) {
  if (current_ == place) return absl::OkStatus();
  SL_RETURN_IF_ERROR(Checked(cudaSetDevice(gpus_[place].ordinal), "cudaSetDevice"));
  current_ = place;
  return absl::OkStatus();
}

// The last one made current is the first one again: what is made without a rank is there.
absl::Status CudaDevice::Start() {
  for (int place = places() - 1; place >= 0; --place) {
    SL_RETURN_IF_ERROR(Enter(place));
    SL_RETURN_IF_ERROR(StartGpu(place));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::StartGpu(int place) {
  Gpu* const gpu = &gpus_[place];
  SL_RETURN_IF_ERROR(
      Checked(cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_),
              "cudaDeviceGetStreamPriorityRange"));
  SL_RETURN_IF_ERROR(
      Checked(cudaStreamCreateWithPriority(&gpu->own, cudaStreamNonBlocking, greatest_priority_),
              "cudaStreamCreateWithPriority"));
  SL_RETURN_IF_ERROR(Checked(cudaEventCreateWithFlags(&gpu->order, cudaEventDisableTiming),
                             "cudaEventCreateWithFlags"));
  SL_RETURN_IF_ERROR(
      Checked(cudaEventCreateWithFlags(&gpu->base, cudaEventDefault), "cudaEventCreateWithFlags"));
  if (sms_per_rank_ == 0) return absl::OkStatus();
  const int here = cuda::FirstRankOfGpu(place + 1, ranks_, places()) -
                   cuda::FirstRankOfGpu(place, ranks_, places());
  SL_ASSIGN_OR_RETURN(gpu->groups, cuda::SmGroups::Make(gpu->ordinal, here, sms_per_rank_));
  return absl::OkStatus();
}

// Errors mean nothing any more.
CudaDevice::~CudaDevice() {
  current_ = -1;
  (void)Enter(0);
  if (!quiet_) WaitQuietly();
  if (abandoned_) {
    for (const Gpu& gpu : gpus_) {
      if (gpu.groups != nullptr) gpu.groups->Abandon();
    }
    return;
  }
  for (const cudaStream_t stream : natives_) {
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }
  for (const Gpu& gpu : gpus_) {
    if (gpu.own != nullptr) (void)cudaStreamDestroy(gpu.own);
  }
  ForgetCaptured();
  for (const cudaEvent_t event : events_) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
  for (const Gpu& gpu : gpus_) {
    for (const cudaEvent_t event : gpu.timing) (void)cudaEventDestroy(event);
    if (gpu.order != nullptr) (void)cudaEventDestroy(gpu.order);
    if (gpu.base != nullptr) (void)cudaEventDestroy(gpu.base);
  }
  for (const auto& [begin, memory] : memory_) (void)cudaFree(const_cast<char*>(begin));
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
  const std::string text = absl::StrCat(call, where, ": ", cuda::ErrorText(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                            : absl::InternalError(text);
}

void CudaDevice::Fail(absl::Status status) {
  if (!failure_.ok() || status.ok()) return;
  failure_ = std::move(status);
  if (give_up_ != nullptr) give_up_(give_up_self_, failure_);
}

StreamId CudaDevice::NewStream(LazyName name, int capacity) {
  return AddStream(name, capacity, least_priority_, gpus_[made_on_].groups.get());
}

StreamId CudaDevice::NewUrgentStream(LazyName name, int capacity) {
  return AddStream(name, capacity, greatest_priority_, nullptr);
}

StreamId CudaDevice::AddStream(LazyName name, int capacity, int priority, cuda::SmGroups* groups) {
  const StreamId id = issuer_.NewStream(name, capacity);
  cudaStream_t stream = nullptr;
  if (failure_.ok()) Fail(Enter(made_on_));
  if (failure_.ok() && groups != nullptr) {
    const int group = made_for_ - cuda::FirstRankOfGpu(made_on_, ranks_, places());
    const absl::StatusOr<cudaStream_t> made = groups->NewStream(group, priority);
    if (made.ok()) stream = *made;
    Fail(made.status());
  } else if (failure_.ok()) {
    Fail(Checked(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
                 "cudaStreamCreateWithPriority", id));
  }
  natives_.push_back(stream);
  stream_places_.push_back(made_on_);
  if (stream != nullptr && name.print != nullptr) nvtx_.NameStream(stream, Print(name));
  return id;
}

EventId CudaDevice::NewEvent(LazyName name) {
  cudaEvent_t event = nullptr;
  if (failure_.ok()) Fail(Enter(made_on_));
  if (failure_.ok()) {
    Fail(Checked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags"));
  }
  events_.push_back(event);
  return issuer_.NewEvent(name);
}

AvailableMemory CudaDevice::available(int place) {
  size_t free = 0, total = 0;
  if (!Enter(place).ok() || cudaMemGetInfo(&free, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};  // whoever takes memory learns what is wrong
  }
  return {static_cast<int64_t>(free),
          places() == 1 ? "the GPU's free memory"
                        : absl::StrCat("the free memory of GPU ", gpus_[place].ordinal)};
}

absl::StatusOr<void*> CudaDevice::AllocateOn(int place, int64_t bytes) {
  if (failure_.ok()) Fail(Enter(place));
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
  memory_[static_cast<char*>(memory)] = {static_cast<int64_t>(size), place};
  // Streams that do not wait for the legacy one would not see what it sets to zero.
  const cudaStream_t own = gpus_[place].own;
  Fail(Checked(cudaMemsetAsync(memory, 0, size, own), "cudaMemsetAsync"));
  if (failure_.ok()) Fail(Checked(cudaStreamSynchronize(own), "cudaStreamSynchronize"));
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
  const cudaStream_t own = gpus_[std::max({GpuOf(to), GpuOf(from), 0})].own;
  Fail(CopyBytes(to, from, bytes, own, StreamId()));
  if (failure_.ok()) Fail(Checked(cudaStreamSynchronize(own), "cudaStreamSynchronize"));
  return failure_;
}

int CudaDevice::GpuOf(const void* memory) const {
  const auto* const at = static_cast<const char*>(memory);
  const auto after = memory_.upper_bound(at);
  if (after == memory_.begin()) return -1;
  const auto& [begin, piece] = *std::prev(after);
  return at < begin + piece.bytes ? piece.gpu : -1;
}

// Between GPUs that do not reach each other CUDA copies by way of the host.
absl::Status CudaDevice::CopyBytes(void* to, const void* from, int64_t bytes, cudaStream_t native,
                                   StreamId stream) const {
  const auto size = static_cast<size_t>(bytes);
  const int there = places() == 1 ? -1 : GpuOf(to);
  const int here = places() == 1 ? -1 : GpuOf(from);
  if (there >= 0 && here >= 0 && !reach_[there][here]) {
    return Checked(
        cudaMemcpyPeerAsync(to, gpus_[there].ordinal, from, gpus_[here].ordinal, size, native),
        "cudaMemcpyPeerAsync", stream);
  }
  return Checked(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, native), "cudaMemcpyAsync",
                 stream);
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
  current_ = -1;  // others of this thread may have made another one current
  Fail(Enter(0));
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
    const Gpu& gpu = gpus_[times_[i].gpu];
    float ms = 0;
    SL_RETURN_IF_ERROR(
        Checked(cudaEventElapsedTime(&ms, gpu.base, times_[i].event), "cudaEventElapsedTime"));
    *times_[i].ns = gpu.base_ns + std::llround(double{ms} * 1e6);
  }
  ForgetTimes();
  return absl::OkStatus();
}

void CudaDevice::ForgetTimes() {
  noted_ = 0;
  for (Gpu& gpu : gpus_) gpu.noted = 0;
}

absl::Status CudaDevice::IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) {
  if (times != nullptr) SL_RETURN_IF_ERROR(NoteTime(stream, &times->start_ns));
  SL_RETURN_IF_ERROR(Launched(
      stream, [&work](cudaStream_t native) { work.run(work.self, work.argument, native); }));
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

// One event of a GPU does for all: who waits for it, waits for what was recorded last, whatever is
// later.
absl::Status CudaDevice::Order(StreamId before, StreamId after) {
  const cudaEvent_t order = GpuOf(before).order;
  SL_RETURN_IF_ERROR(Checked(cudaEventRecord(order, native(before)), "cudaEventRecord", before));
  return Checked(cudaStreamWaitEvent(native(after), order, cudaEventWaitDefault),
                 "cudaStreamWaitEvent", after);
}

absl::Status CudaDevice::Move(StreamId stream, void* to, const void* from, int64_t bytes) {
  if (bytes == 0 || to == from) return absl::OkStatus();
  return CopyBytes(to, from, bytes, native(stream), stream);
}

absl::Status CudaDevice::NoteTime(StreamId stream, int64_t* ns) {
  if (noted_ == 0 && !capturing_) SL_RETURN_IF_ERROR(StartTimes());
  Gpu& gpu = GpuOf(stream);
  if (gpu.noted == gpu.timing.size()) {
    cudaEvent_t event = nullptr;
    SL_RETURN_IF_ERROR(Enter(place_of(stream)));
    SL_RETURN_IF_ERROR(
        Checked(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags"));
    gpu.timing.push_back(event);
    times_.push_back({});
  }
  const cudaEvent_t event = gpu.timing[gpu.noted++];
  times_[noted_++] = {ns, {stream, issuer_.At(stream)}, place_of(stream), event};
  // Without the flag an event in a graph only orders, and has no time.
  return Checked(
      cudaEventRecordWithFlags(event, native(stream),
                               capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault),
      "cudaEventRecord", stream);
}

absl::Status CudaDevice::StartTimes() {
  for (Gpu& gpu : gpus_) {
    gpu.base_ns = NowNs();
    SL_RETURN_IF_ERROR(Checked(cudaEventRecord(gpu.base, gpu.own), "cudaEventRecord"));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::LaunchError(StreamId stream) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string action = issuer_.Issuing(stream);
  return Checked(error, action.empty() ? "work" : absl::StrCat("work of ", action).c_str(), stream);
}

}  // namespace stringline
