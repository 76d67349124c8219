// The wait for the work of all streams, which is never endless: work unfinished at the deadline is
// DeadlineExceeded, which names the progress of the streams. Then the device is abandoned: nothing
// waits for it any more.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/cuda/device_streams.h"
#include "executor/cuda/issue.h"
#include "executor/cuda/opened_gpus.h"
#include "executor/cuda/progress.h"
#include "executor/cuda/timing_events.h"

namespace stringline::cuda {

// Something to be asked again and again, or at certain moments.
struct DeviceCheck {
  absl::Status (*check)(const void* self);
  const void* self;
};

class StreamDeadline {
 public:
  StreamDeadline(const OpenedGpus* gpus, const DeviceStreams* streams, const Issuer* issuer,
                 const TimingEvents* timing)
      : gpus_(gpus), streams_(streams), issuer_(issuer), timing_(timing) {}

  // Bound on a wait; 0: none.
  void set_timeout_ns(int64_t timeout_ns) { timeout_ns_ = timeout_ns; }
  // A check that is polled while Wait waits; its error ends the wait.
  void AddWatch(DeviceCheck watch) { watches_.push_back(watch); }

  // Waits for all work issued in this step. `replayed`: the ops of the captured step that runs, or
  // null.
  absl::Status Wait(const StepOps* replayed);
  // Waits a moment for room on a stream (IssueSink::AwaitRoom), and asks the watches.
  absl::Status AwaitRoom(bool first);
  // Waits for remaining work, once, after an error or at the end; errors are ignored.
  void WaitQuietly();
  // True after a deadline passed with work unfinished on the GPU.
  bool abandoned() const { return abandoned_; }

 private:
  absl::StatusOr<bool> WaitFor(cudaStream_t stream, StreamId id, int64_t start_ns, int64_t most_ns,
                               bool watched);
  absl::Status Unfinished(const StepOps* replayed);

  const OpenedGpus* const gpus_;
  const DeviceStreams* const streams_;
  const Issuer* const issuer_;
  const TimingEvents* const timing_;
  int64_t timeout_ns_ = 0;
  int64_t without_room_ns_ = 0;  // since then
  std::vector<DeviceCheck> watches_;
  bool quiet_ = false;  // no work runs any more, or nothing waits for it
  bool abandoned_ = false;
};

}  // namespace stringline::cuda
