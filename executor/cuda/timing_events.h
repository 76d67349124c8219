// The timing events of a device, and the nanoseconds that they become.
//
// A timed operation has a timing event before and after it, on its stream; the first step makes the
// events, and later steps reuse them. After the step their times become nanoseconds of the host's
// clock, by means of a further event on each GPU, recorded on an idle stream together with the
// first timing event. The resolution is CUDA's, half a microsecond; the error between two steps, or
// two GPUs, is a few microseconds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/cuda/device_streams.h"
#include "executor/cuda/issue.h"
#include "executor/cuda/opened_gpus.h"
#include "executor/cuda/progress.h"

namespace stringline::cuda {

// The destination of an event's time, and the op that it belongs to.
struct NotedTime {
  int64_t* ns = nullptr;
  OpPlace place;
  int gpu = 0;
  cudaEvent_t event = nullptr;
};

class TimingEvents {
 public:
  TimingEvents(OpenedGpus* gpus, const DeviceStreams* streams, const Issuer* issuer)
      : gpus_(gpus), streams_(streams), issuer_(issuer), clocks_(gpus->count()) {}
  ~TimingEvents();
  TimingEvents(const TimingEvents&) = delete;
  TimingEvents& operator=(const TimingEvents&) = delete;

  // The moment when the stream comes here, written to *ns by Read. `capturing`: in a graph.
  absl::Status Note(StreamId stream, int64_t* ns, bool capturing);
  // The events of this step.
  absl::Span<const NotedTime> noted() const { return absl::MakeConstSpan(times_).first(noted_); }
  // Begins to count, for a step whose events are in a graph.
  absl::Status Start();
  void Replay(absl::Span<const NotedTime> times);
  // Writes all times, once all work has ended; the step has no events any more.
  absl::Status Read();
  void Forget();
  // Leaks everything.
  void Abandon() { clocks_.clear(); }

 private:
  // Of a GPU. The first `noted` timing events are recorded in this step, each for one time.
  struct Clock {
    int64_t base_ns = 0;  // when the GPU's base event was recorded
    std::vector<cudaEvent_t> timing;
    size_t noted = 0;
  };

  OpenedGpus* const gpus_;
  const DeviceStreams* const streams_;
  const Issuer* const issuer_;
  std::vector<Clock> clocks_;  // by place
  // The first noted_ entries are of this step; as many entries as timing events.
  std::vector<NotedTime> times_;
  size_t noted_ = 0;
};

}  // namespace stringline::cuda
