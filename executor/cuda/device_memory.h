// The memory of a device: blocks on its GPUs, pinned memory of the host, and copies between them.
// Every block belongs to one GPU, which is found again from an address inside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/cuda/opened_gpus.h"
#include "executor/engine/available_memory.h"

namespace stringline::cuda {

class DeviceMemory {
 public:
  explicit DeviceMemory(OpenedGpus* gpus) : gpus_(gpus) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // The memory still available on the GPU of a place.
  AvailableMemory available(int place) const;
  // Zeroed. ResourceExhausted: the GPU has too little; every other error is the device's
  // (*is_failure).
  absl::StatusOr<void*> Allocate(int place, int64_t bytes, bool* is_failure);
  // Zeroed, pinned host memory.
  absl::StatusOr<void*> AllocateHost(int64_t bytes, bool* is_failure);
  // Enqueues a copy on `native`. Returns the error of `*call`.
  cudaError_t Copy(void* to, const void* from, int64_t bytes, cudaStream_t native,
                   const char** call) const;
  // Copies now, outside all steps. Avoids the legacy stream, on which other code of the process may
  // have work.
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) const;
  // Leaks everything.
  void Abandon();

 private:
  struct Block {
    int64_t bytes = 0;
    int gpu = 0;
  };
  // The GPU that owns the memory; -1: none.
  int GpuOf(const void* memory) const;

  OpenedGpus* const gpus_;
  std::map<const char*, Block> blocks_;
  std::vector<void*> host_;
};

}  // namespace stringline::cuda
