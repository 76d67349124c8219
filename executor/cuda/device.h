// A GPU as a device: its streams are CUDA streams, its events CUDA events.
//
// What is enqueued is given to CUDA in an order in which it means the same (issue.h), by the thread
// that calls Submit or Synchronize; Work is called then. Streams do not wait for the legacy stream,
// nor it for them. Between steps nothing is pending: Synchronize waits for every stream.
//
// Times: what is timed has a timing event before and after it, on its stream; the first step makes
// them, and later ones use them again. After the step they become nanoseconds of the host's clock,
// through one more event that was recorded on an idle stream when the first of them was. They are
// as fine as CUDA's are, half a microsecond, and between two steps a few microseconds off.
//
// A step that is the same every time can be captured as one CUDA graph, and then be replayed
// instead of being issued again: a few microseconds of the host, however many kernels there are.
//
// An error of CUDA is one status: the call, the stream, and CUDA's text. The device stays in it,
// and in that of a group or a deadlock. What was given to the GPU before has run, or failed, when
// Synchronize returns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "executor/cuda/issue.h"
#include "executor/device.h"

namespace stringline {

class CudaDevice final : public Device, private IssueSink {
 public:
  // The GPU with that number. Unavailable when there is none, or no driver.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Make(int ordinal = 0);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  StreamId NewStream(LazyName name, int capacity) override;
  StreamId NewUrgentStream(LazyName name, int capacity) override;
  EventId NewEvent(LazyName name) override;
  // 256-byte aligned; nothing is kept beside what is asked for.
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  // Zeroed memory of the host that the GPU reads and writes itself: what Copy copies from or to, if
  // it shall not hold up the thread that issues.
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override;
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override;
  using Device::Launch;
  void Launch(StreamId stream, const Work& work, WorkTimes* times) override;
  void Copy(StreamId stream, void* to, const void* from, int64_t bytes) override;
  void Record(StreamId stream, EventId event) override;
  void Wait(StreamId stream, EventId event) override;
  int64_t NowNs() const override;
  void Submit() override;
  absl::Status Synchronize() override;

  // Captures what is enqueued, all of a step and none of it submitted, without running it; returns
  // what Replay takes. It should have run once before, since what CUDA and libraries do only at
  // first cannot be captured. When CUDA does not capture it the status says why, and the step is
  // enqueued as before: Synchronize performs it as ever.
  absl::StatusOr<int> Capture();
  // Runs a captured step once more, with nothing beside it until Synchronize, which writes the
  // times of it too.
  void Replay(int captured);

  // For groups. The stream comes to `meeting` on `side` with `end`.
  void Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end);
  // Asked in every Synchronize, when all work has run; an error is the device's.
  void AddCheck(absl::Status (*check)(const void* self), const void* self);
  // What watches over a wait for the GPU whose work may need other processes.
  struct Watch {
    void* self = nullptr;
    // Asked again and again while Synchronize waits, with how long it has; an error ends the wait,
    // and is the device's.
    absl::Status (*poll)(void* self, int64_t waited_ns) = nullptr;
    // Told once what the device fails with. After it all work on the GPU must come to an end.
    void (*give_up)(void* self, const absl::Status& failure) = nullptr;
  };
  void SetWatch(const Watch& watch) { watch_ = watch; }
  // The following are for exchanges, while the device issues.
  bool capturing() const { return capturing_; }
  int ordinal() const { return ordinal_; }
  cudaStream_t native(StreamId stream) const { return natives_[stream.value]; }
  // What `after` does from now on comes after all that `before` was given.
  absl::Status Order(StreamId before, StreamId after);
  absl::Status Move(StreamId stream, void* to, const void* from, int64_t bytes);
  // The moment when the stream comes here, written by Synchronize.
  absl::Status NoteTime(StreamId stream, int64_t* ns);
  // Of the kernels that were launched on the stream just now.
  absl::Status LaunchError(StreamId stream);

 private:
  struct Check {
    absl::Status (*check)(const void* self);
    const void* self;
  };

  // A captured step, and where the times go that its events tell.
  struct CapturedStep {
    cudaGraphExec_t graph = nullptr;
    std::vector<int64_t*> times;
  };

  explicit CudaDevice(int ordinal) : ordinal_(ordinal), issuer_(this) {}
  absl::Status Start();
  StreamId AddStream(LazyName name, int capacity, int priority);

  absl::Status IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) override;
  absl::Status IssueCopy(StreamId stream, void* to, const void* from, int64_t bytes) override;
  absl::Status IssueRecord(StreamId stream, EventId event) override;
  absl::Status IssueWait(StreamId stream, EventId event) override;

  // OK, or what the call came back with. It is CUDA's last error no more.
  absl::Status Checked(cudaError_t error, const char* call) const;
  absl::Status Checked(cudaError_t error, const char* call, StreamId stream) const;
  absl::Status WaitForStreams();
  absl::Status WaitFor(cudaStream_t stream, StreamId name);
  void WaitQuietly();
  absl::Status ReadTimes();
  void Fail(absl::Status status);
  // From the fork of all streams to their join.
  absl::Status IssueCaptured();
  absl::Status StartTimes();

  const int ordinal_;
  Issuer issuer_;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  std::vector<cudaStream_t> natives_;  // by stream
  std::vector<cudaEvent_t> events_;    // by event
  std::vector<void*> memory_;
  std::vector<void*> host_memory_;
  std::vector<Check> checks_;
  Watch watch_;
  int64_t waiting_since_ns_ = 0;
  // For what is not part of a step, for the event that times are counted from, and for captured
  // steps.
  cudaStream_t own_ = nullptr;
  cudaEvent_t order_ = nullptr;
  // The first noted_ of the timing events are recorded in this step, each for one number.
  cudaEvent_t base_ = nullptr;
  int64_t base_ns_ = 0;
  std::vector<cudaEvent_t> timing_;
  std::vector<int64_t*> times_;
  size_t noted_ = 0;
  std::vector<CapturedStep> captured_;
  bool capturing_ = false;
  bool replayed_ = false;
  absl::Status failure_;
  bool quiet_ = false;  // nothing runs any more since the failure
};

}  // namespace stringline
