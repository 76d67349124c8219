// The lead of the host over the GPU on each stream, kept short.
//
// A CUDA stream holds about a thousand launches; a call that finds it full blocks the host until
// one of them has run. A host that is blocked behind a message issues nothing more: neither what
// the message's sender waits for, nor the message of a failure. So an op is issued only when the
// stream has come to the start of the op `ahead` before it. Then fewer launches wait behind any
// message than a stream holds, and the host is never blocked for good.
//
// Only messages between processes can block so. Used by the thread that issues, outside of
// captures, which hold any number of launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/cuda/device_streams.h"
#include "executor/cuda/opened_gpus.h"

namespace stringline::cuda {

class StreamWindow {
 public:
  StreamWindow(OpenedGpus* gpus, const DeviceStreams* streams) : gpus_(gpus), streams_(streams) {}
  ~StreamWindow();
  StreamWindow(const StreamWindow&) = delete;
  StreamWindow& operator=(const StreamWindow&) = delete;

  // Both are called before the first step: the launches that a stream holds (0, the default: any
  // number, as without other processes no message waits for one that is not issued), and those of
  // some op.
  void set_stream_launches(int64_t launches);
  void ExpectLaunches(int64_t launches);
  // True if the stream's next op may be issued, and then will be. Errors are those of CUDA.
  absl::StatusOr<bool> MayIssue(StreamId stream);
  // Leaks all events.
  void Abandon() { starts_.clear(); }

 private:
  static constexpr int kMostAhead = 7;

  // The starts of a stream's latest ops, as a ring of events.
  struct Starts {
    cudaEvent_t events[kMostAhead + 1] = {};
    uint64_t issued = 0;
    bool noted = false;  // the start of the op that is next
  };
  absl::Status NoteStart(StreamId stream, Starts* starts);

  OpenedGpus* const gpus_;
  const DeviceStreams* const streams_;
  int64_t stream_launches_ = 0;
  int64_t most_launches_ = 1;  // of an op
  int ahead_ = kMostAhead;
  std::vector<Starts> starts_;  // by stream
};

}  // namespace stringline::cuda
