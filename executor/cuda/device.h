// A GPU as a device, or several of one process: its streams are CUDA streams, its events CUDA
// events.
//
// Of several each is a place (Device::places), with streams, events and memory of its own. Work is
// called, and kernels are launched, while its stream's GPU is the current one of the thread; copies
// go between any two, also where neither can use the other's memory. A captured step is one graph
// on all of them.
//
// What is enqueued is given to CUDA in an order in which it means the same (issue.h), by the thread
// that calls Submit or Synchronize; Work is called then. Streams do not wait for the legacy stream,
// nor it for them. Between steps nothing is pending: Synchronize waits for every stream.
//
// Times: what is timed has a timing event before and after it, on its stream; the first step makes
// them, and later ones use them again. After the step they become nanoseconds of the host's clock,
// through one more event of each GPU that was recorded on an idle stream when the first of them
// was. They are as fine as CUDA's are, half a microsecond, and between two steps, or two GPUs, a
// few microseconds off.
//
// A step that is the same every time can be captured as one CUDA graph, and then be replayed
// instead of being issued again: a few microseconds of the host, however many kernels there are.
//
// An error of CUDA is one status: the call, the stream, and CUDA's text. The device stays in it,
// and in that of a group or a deadlock. What was given to the GPU before has run, or failed, when
// Synchronize returns.
//
// Nothing waits for ever: what has not ended by the deadline is DeadlineExceeded, which says how
// far the streams came. Such a device is abandoned: nobody waits for it any more, and its memory,
// streams and events stay the GPU's, since giving them back would wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "executor/available_memory.h"
#include "executor/cuda/gpus.h"
#include "executor/cuda/issue.h"
#include "executor/cuda/nvtx.h"
#include "executor/cuda/progress.h"
#include "executor/cuda/sm_groups.h"
#include "executor/device.h"

namespace stringline {

class CudaDevice final : public Device, private IssueSink {
 public:
  // The GPU with that number. Unavailable when there is none, or no driver.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Make(int ordinal = 0);
  // Those with these numbers, for so many ranks of the mesh, in blocks (gpus.h). Errors are those
  // of OpenGpus. Where `sms_per_rank` is not 0, streams of NewStream have so many multiprocessors
  // for their rank alone; errors are then those of SmGroups::Make too.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Make(absl::Span<const int> ordinals, int ranks,
                                                          int sms_per_rank = 0);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  void MakeFor(int rank) override {
    made_for_ = rank;
    made_on_ = place_of(rank);
  }
  int places() const override { return static_cast<int>(gpus_.size()); }
  bool is_host() const override { return false; }
  int place_of(int rank) const override {
    return places() == 1 ? 0 : cuda::GpuOfRank(rank, ranks_, places());
  }
  StreamId NewStream(LazyName name, int capacity) override;
  StreamId NewUrgentStream(LazyName name, int capacity) override;
  EventId NewEvent(LazyName name) override;
  // The memory that the GPU of a place can still give.
  AvailableMemory available(int place = 0);
  // 256-byte aligned; nothing is kept beside what is asked for.
  absl::StatusOr<void*> Allocate(int64_t bytes) override { return AllocateOn(made_on_, bytes); }
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
  bool ShowsMarks() const override { return true; }
  void Mark(StreamId stream, const LazyName& name) override;
  void Submit() override;
  absl::Status Synchronize() override;

  bool CanCapture() const override { return true; }
  absl::StatusOr<int> Capture() override;
  void Replay(int captured) override;

  // How long Synchronize waits at most; 0: for ever.
  void set_timeout_ns(int64_t timeout_ns) { timeout_ns_ = timeout_ns; }
  // Asked again and again while Synchronize waits; an error ends the wait and is the device's.
  void AddWatch(absl::Status (*check)(const void* self), const void* self);
  // Whether the GPU did not come to an end.
  bool abandoned() const { return abandoned_; }

  // For groups. The stream comes to `meeting` on `side` with `end`.
  void Meet(StreamId stream, IssueMeeting* meeting, int side, const void* end);
  // Asked in every Synchronize, when all work has run, and when a step has been captured. An error
  // is the device's, or why the step cannot be captured; it is told once.
  void AddCheck(absl::Status (*check)(const void* self), const void* self);
  // Told once what the device fails with, at once. After it what waits on the GPU for other
  // processes must come to an end.
  using GiveUp = void (*)(void* self, const absl::Status& failure);
  void OnFailure(GiveUp give_up, void* self) {
    give_up_ = give_up;
    give_up_self_ = self;
  }
  // Destroys the graphs of all captured steps; one that runs still comes to its end. No more
  // Replay.
  void ForgetCaptured();
  // Whether what runs until Synchronize was captured.
  bool replaying() const { return replayed_ >= 0; }
  // The following are for exchanges, while the device issues.
  bool capturing() const { return capturing_; }
  // How many multiprocessors a rank's kernels have; 0: all of its GPU.
  int sms_per_rank() const { return sms_per_rank_; }
  int ordinal(int place = 0) const { return gpus_[place].ordinal; }
  cudaStream_t native(StreamId stream) const { return natives_[stream.value]; }
  int place_of(StreamId stream) const { return stream_places_[stream.value]; }
  // Whether kernels on the stream may use what lies where the other stream is.
  bool Reaches(StreamId stream, StreamId other) const {
    return reach_[place_of(stream)][place_of(other)];
  }
  // The place whose GPU is the current one: of the stream whose work is called.
  int current_place() const { return current_; }
  // As Allocate, on that place.
  absl::StatusOr<void*> AllocateOn(int place, int64_t bytes);
  // Makes a place's GPU the current one.
  absl::Status Enter(int place);
  // Calls launch(native stream), which launches kernels there.
  template <typename Function>
  absl::Status Launched(StreamId stream, const Function& launch) {
    const absl::Status status = Enter(place_of(stream));
    if (!status.ok()) return status;
    launch(native(stream));
    return LaunchError(stream);
  }
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

  // Where the time of an event goes, and of which op it is.
  struct NotedTime {
    int64_t* ns = nullptr;
    OpPlace place;
    int gpu = 0;
    cudaEvent_t event = nullptr;
  };
  // What each GPU has for itself.
  struct Gpu {
    int ordinal = 0;
    // For what is not part of a step, and for the event that times are counted from; the first
    // GPU's also for captured steps.
    cudaStream_t own = nullptr;
    cudaEvent_t order = nullptr;
    cudaEvent_t base = nullptr;
    int64_t base_ns = 0;
    // The first `noted` of the timing events are recorded in this step, each for one number.
    std::vector<cudaEvent_t> timing;
    size_t noted = 0;
    // Where ranks have multiprocessors of their own.
    std::unique_ptr<cuda::SmGroups> groups;
  };
  struct Memory {
    int64_t bytes = 0;
    int gpu = 0;
  };
  struct CapturedStep {
    cudaGraphExec_t graph = nullptr;
    std::vector<NotedTime> times;
    StepOps ops;
  };

  CudaDevice(absl::Span<const int> ordinals, int ranks, int sms_per_rank, cuda::Reach reach);
  absl::Status Start();
  absl::Status StartGpu(int place);
  Gpu& GpuOf(StreamId stream) { return gpus_[place_of(stream)]; }
  // That whose memory it is; -1: none's.
  int GpuOf(const void* memory) const;
  absl::Status CopyBytes(void* to, const void* from, int64_t bytes, cudaStream_t native,
                         StreamId stream) const;
  StreamId AddStream(LazyName name, int capacity, int priority, cuda::SmGroups* groups);

  absl::Status IssueLaunch(StreamId stream, const Work& work, WorkTimes* times) override;
  absl::Status IssueCopy(StreamId stream, void* to, const void* from, int64_t bytes) override;
  absl::Status IssueRecord(StreamId stream, EventId event) override;
  absl::Status IssueWait(StreamId stream, EventId event) override;
  void IssueMark(const LazyName& name) override { nvtx_.Enter(name); }

  // OK, or what the call came back with. It is CUDA's last error no more.
  absl::Status Checked(cudaError_t error, const char* call) const;
  absl::Status Checked(cudaError_t error, const char* call, StreamId stream) const;
  // Whether the stream comes to its end before `most_ns` (0: no limit) have passed since start_ns.
  absl::StatusOr<bool> WaitFor(cudaStream_t stream, StreamId id, int64_t start_ns, int64_t most_ns,
                               bool watched);
  absl::Status WaitForStreams();
  void WaitQuietly();
  // The error of a deadline.
  absl::Status Unfinished();
  absl::Status ReadTimes();
  void ForgetTimes();
  void Fail(absl::Status status);
  // From the fork of all streams to their join.
  absl::Status IssueCaptured();
  absl::Status StartTimes();

  std::vector<Gpu> gpus_;
  const cuda::Reach reach_;
  const int ranks_;
  const int sms_per_rank_;
  int made_for_ = 0;  // the rank that things are made for now
  int made_on_ = 0;   // its place
  int current_ = -1;  // -1: not known
  int64_t timeout_ns_ = 0;
  NvtxRanges nvtx_;
  Issuer issuer_;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  std::vector<cudaStream_t> natives_;  // by stream
  std::vector<int> stream_places_;     // by stream
  std::vector<cudaEvent_t> events_;    // by event
  std::map<const char*, Memory> memory_;
  std::vector<void*> host_memory_;
  std::vector<Check> checks_;
  std::vector<Check> watches_;
  GiveUp give_up_ = nullptr;
  void* give_up_self_ = nullptr;
  // The first noted_ are of this step; there is room for all timing events.
  std::vector<NotedTime> times_;
  size_t noted_ = 0;
  std::vector<CapturedStep> captured_;
  bool capturing_ = false;
  int replayed_ = -1;  // which captured step runs
  absl::Status failure_;
  bool quiet_ = false;  // nothing runs any more since the failure, or nobody waits for it
  bool abandoned_ = false;
};

}  // namespace stringline
