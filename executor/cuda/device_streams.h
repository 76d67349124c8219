// The CUDA streams and events of a device: stream s and event e of the issuer, which has their
// names.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "absl/status/status.h"
#include "executor/cuda/issue.h"
#include "executor/cuda/nvtx.h"
#include "executor/cuda/opened_gpus.h"

namespace stringline::cuda {

class DeviceStreams {
 public:
  DeviceStreams(OpenedGpus* gpus, Issuer* issuer, NvtxRanges* nvtx)
      : gpus_(gpus), issuer_(issuer), nvtx_(nvtx) {}
  ~DeviceStreams();
  DeviceStreams(const DeviceStreams&) = delete;
  DeviceStreams& operator=(const DeviceStreams&) = delete;

  // A stream or an event of a rank, on its GPU. After an error, or if the device has `failed`, the
  // stream exists without an object of CUDA. An urgent stream goes first, on all multiprocessors.
  absl::Status AddStream(LazyName name, int capacity, int rank, int place, bool urgent, bool failed,
                         StreamId* stream);
  absl::Status AddEvent(LazyName name, int place, bool failed, EventId* event);

  int count() const { return static_cast<int>(natives_.size()); }
  cudaStream_t native(StreamId stream) const { return natives_[stream.value]; }
  int place_of(StreamId stream) const { return places_[stream.value]; }
  cudaEvent_t event(EventId event) const { return events_[event.value]; }

  // OK, or the call's error, with the stream's name. Clears CUDA's last error.
  absl::Status Checked(cudaError_t error, const char* call, StreamId stream) const;
  absl::Status Record(StreamId stream, EventId event) const;
  absl::Status Wait(StreamId stream, EventId event) const;
  // Orders later work of `after` behind all work issued to `before`.
  absl::Status Order(StreamId before, StreamId after) const;
  // The error of the kernels just launched on the stream.
  absl::Status LaunchError(StreamId stream) const;
  // Leaks everything.
  void Abandon();

 private:
  OpenedGpus* const gpus_;
  Issuer* const issuer_;
  NvtxRanges* const nvtx_;
  std::vector<cudaStream_t> natives_;  // by stream
  std::vector<int> places_;            // by stream
  std::vector<cudaEvent_t> events_;    // by event
};

}  // namespace stringline::cuda
