// A GPU as a device, or several of one process: its streams are CUDA streams, its events CUDA
// events.
//
// Each of several GPUs is a place (Device::places), with streams, events and memory of its own.
// Work is called, and kernels are launched, while the stream's GPU is the thread's current device;
// copies go between any two GPUs, also without peer access. A captured step is one graph on all of
// them.
//
// Enqueued operations are issued to CUDA in an equivalent order (issue.h), by the thread that calls
// Submit or Synchronize; Work is called then. Streams and the legacy stream do not wait for each
// other. Between steps nothing is pending: Synchronize waits for every stream.
//
// Each of these duties is a class of its own: the GPUs themselves (opened_gpus.h), memory
// (device_memory.h), streams and events (device_streams.h), times (timing_events.h), steps captured
// as a graph (captured_steps.h), the lead of the host (stream_window.h) and the bounded wait for
// all work (stream_deadline.h). The device puts them together, and keeps the failure.
//
// An error of CUDA is one status: the call, the stream, and CUDA's text. The device stays in that
// error, as in that of a group or a deadlock. Work issued before has run, or failed, when
// Synchronize returns.
//
// No wait is endless (stream_deadline.h). An abandoned device's memory, streams and events are
// leaked, since freeing them would wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "executor/cuda/captured_steps.h"
#include "executor/cuda/device_memory.h"
#include "executor/cuda/device_streams.h"
#include "executor/cuda/issue.h"
#include "executor/cuda/nvtx.h"
#include "executor/cuda/opened_gpus.h"
#include "executor/cuda/stream_deadline.h"
#include "executor/cuda/stream_window.h"
#include "executor/cuda/timing_events.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/device.h"

namespace stringline {

class CudaDevice final : public Device, private IssueSink {
 public:
  // The GPU with that number. Unavailable without the GPU, or without a driver.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Make(int ordinal = 0);
  // The GPUs with these numbers, for `ranks` ranks of the mesh, in blocks (gpus.h). Errors are
  // those of OpenGpus. If `sms_per_rank` is not 0, streams of NewStream have that number of
  // multiprocessors for their rank alone; errors are then those of SmGroups::Make too.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Make(absl::Span<const int> ordinals, int ranks,
                                                          int sms_per_rank = 0);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  void MakeFor(int rank) override {
    made_for_ = rank;
    made_on_ = place_of(rank);
  }
  int places() const override { return gpus_->count(); }
  bool is_host() const override { return false; }
  int place_of(int rank) const override { return gpus_->PlaceOfRank(rank); }
  StreamId NewStream(LazyName name, int capacity) override {
    return AddStream(name, capacity, /*urgent=*/false);
  }
  StreamId NewUrgentStream(LazyName name, int capacity) override {
    return AddStream(name, capacity, /*urgent=*/true);
  }
  EventId NewEvent(LazyName name) override;
  // The memory still available on the GPU of a place.
  AvailableMemory available(int place = 0) { return memory_.available(place); }
  // 256-byte aligned; the device keeps no reserve.
  absl::StatusOr<void*> Allocate(int64_t bytes) override { return AllocateOn(made_on_, bytes); }
  // Zeroed, pinned host memory that the GPU reads and writes itself: Copy needs it so as not to
  // block the issuing thread.
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override;
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override;
  using Device::Launch;
  void Launch(StreamId stream, const Work& work, WorkTimes* times) override {
    issuer_.Launch(stream, work, times);
  }
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes) override {
    issuer_.Copy(stream, to, from, bytes);
  }
  void Record(StreamId stream, EventId event) override { issuer_.Record(stream, event); }
  void Wait(StreamId stream, EventId event) override { issuer_.Wait(stream, event); }
  int64_t NowNs() const override;
  bool ShowsMarks() const override { return true; }
  void Mark(StreamId stream, const LazyName& name) override { issuer_.Mark(stream, name); }
  void Submit() override;
  absl::Status Synchronize() override;

  void ExpectLaunches(int64_t launches) override { window_.ExpectLaunches(launches); }
  bool CanCapture() const override { return true; }
  absl::StatusOr<int> Capture() override;
  void Replay(int captured) override;

  // Bound on the wait of Synchronize; 0: none.
  void set_timeout_ns(int64_t timeout_ns) { deadline_.set_timeout_ns(timeout_ns); }
  // Adds a check that is polled while Synchronize waits; its error ends the wait and becomes the
  // device's.
  void AddWatch(absl::Status (*check)(const void* self), const void* self) {
    deadline_.AddWatch({check, self});
  }
  // Launches that a stream holds before a call blocks the host; 0: any number (stream_window.h).
  void set_stream_launches(int64_t launches) { window_.set_stream_launches(launches); }
  // True after a deadline passed with work unfinished on the GPU.
  bool abandoned() const { return deadline_.abandoned(); }

  // For groups: the stream comes to `meeting` on `side` with `end`.
  void Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end) {
    issuer_.Meet(stream, meeting, side, end);
  }
  // Adds a check for every Synchronize, when all work has run, and for every capture, at its end.
  // Its error becomes the device's, or the reason why the step cannot be captured; it is reported
  // once.
  void AddCheck(absl::Status (*check)(const void* self), const void* self) {
    checks_.push_back({check, self});
  }
  // Called once, at once, with the device's failure. Afterwards, waits on the GPU for other
  // processes must end.
  using GiveUp = void (*)(void* self, const absl::Status& failure);
  void OnFailure(GiveUp give_up, void* self) {
    give_up_ = give_up;
    give_up_self_ = self;
  }
  // Destroys the graphs of all captured steps; a running graph still completes. No more Replay.
  void ForgetCaptured() { captured_.Forget(); }
  // True if the work until the next Synchronize is a replay.
  bool replaying() const { return captured_.replayed() != nullptr; }
  // The functions below are for exchanges, while the device issues.
  bool capturing() const { return captured_.capturing(); }
  // The number of multiprocessors for a rank's kernels; 0: all of its GPU.
  int sms_per_rank() const { return gpus_->sms_per_rank(); }
  int ordinal(int place = 0) const { return gpus_->ordinal(place); }
  cudaStream_t native(StreamId stream) const { return streams_.native(stream); }
  int place_of(StreamId stream) const { return streams_.place_of(stream); }
  // True if kernels on `stream` may use memory at the place of `other`.
  bool Reaches(StreamId stream, StreamId other) const {
    return gpus_->Reaches(place_of(stream), place_of(other));
  }
  // The place of the current GPU: that of the stream whose work is called.
  int current_place() const { return gpus_->current(); }
  // Allocate at a given place.
  absl::StatusOr<void*> AllocateOn(int place, int64_t bytes);
  // Makes a place's GPU current.
  absl::Status Enter(int place) { return gpus_->Enter(place); }
  // Calls launch(native stream), which launches kernels there.
  template <typename Function>
  absl::Status Launched(StreamId stream, const Function& launch) {
    const absl::Status status = Enter(place_of(stream));
    if (!status.ok()) return status;
    launch(native(stream));
    return LaunchError(stream);
  }
  // Orders later work of `after` behind all work issued to `before`.
  absl::Status Order(StreamId before, StreamId after) { return streams_.Order(before, after); }
  absl::Status Move(StreamId stream, void* to, const void* from, int64_t bytes);
  // The moment when the stream comes here, written to *ns by Synchronize.
  absl::Status NoteTime(StreamId stream, int64_t* ns) {
    return timing_.Note(stream, ns, capturing());
  }
  // The error of the kernels just launched on the stream.
  absl::Status LaunchError(StreamId stream) { return streams_.LaunchError(stream); }

 private:
  explicit CudaDevice(std::unique_ptr<cuda::OpenedGpus> gpus);
  StreamId AddStream(LazyName name, int capacity, bool urgent);
  void Fail(absl::Status status);

  absl::Status IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) override;
  absl::Status IssueCopy(StreamId stream, void* to, const void* from, int64_t bytes) override {
    return Move(stream, to, from, bytes);
  }
  absl::Status IssueRecord(StreamId stream, EventId event) override {
    return streams_.Record(stream, event);
  }
  absl::Status IssueWait(StreamId stream, EventId event) override {
    return streams_.Wait(stream, event);
  }
  absl::StatusOr<bool> MayIssue(StreamId stream) override {
    if (capturing()) return true;
    return window_.MayIssue(stream);
  }
  absl::Status AwaitRoom(bool first) override { return deadline_.AwaitRoom(first); }
  void IssueMark(const LazyName& name) override { nvtx_.Enter(name); }

  int made_for_ = 0;  // the rank for which objects are made now
  int made_on_ = 0;   // its place
  NvtxRanges nvtx_;
  Issuer issuer_;
  const std::unique_ptr<cuda::OpenedGpus> gpus_;
  cuda::DeviceMemory memory_;
  cuda::DeviceStreams streams_;
  cuda::StreamWindow window_;
  cuda::TimingEvents timing_;
  cuda::CapturedSteps captured_;
  cuda::StreamDeadline deadline_;
  std::vector<cuda::DeviceCheck> checks_;
  GiveUp give_up_ = nullptr;
  void* give_up_self_ = nullptr;
  absl::Status failure_;
};

}  // namespace stringline
