#include "executor/cuda/device_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "executor/cuda/cuda_error.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {

// Errors are ignored.
DeviceMemory::~DeviceMemory() {
  for (const auto& [begin, block] : blocks_) (void)cudaFree(const_cast<char*>(begin));
  for (void* const piece : host_) (void)cudaFreeHost(piece);
}

void DeviceMemory::Abandon() {
  blocks_.clear();
  host_.clear();
}

AvailableMemory DeviceMemory::available(int place) const {
  size_t free = 0, total = 0;
  if (!gpus_->Enter(place).ok() || cudaMemGetInfo(&free, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};  // the allocation itself will report the error
  }
  return {static_cast<int64_t>(free),
          gpus_->count() == 1 ? "the GPU's free memory"
                              : absl::StrCat("the free memory of GPU ", gpus_->ordinal(place))};
}

absl::StatusOr<void*> DeviceMemory::Allocate(int place, int64_t bytes, bool* is_failure) {
  *is_failure = true;
  SL_RETURN_IF_ERROR(gpus_->Enter(place));
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation) {
    *is_failure = false;
    (void)cudaGetLastError();
    size_t free = 0, total = 0;
    SL_RETURN_IF_ERROR(Checked(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes,
                                                     " bytes of GPU memory: ", free, " of ", total,
                                                     " bytes are free"));
  }
  SL_RETURN_IF_ERROR(Checked(error, "cudaMalloc"));
  blocks_[static_cast<char*>(memory)] = {static_cast<int64_t>(size), place};
  // Streams that do not wait for the legacy stream would miss its memset.
  const cudaStream_t own = gpus_->own(place);
  SL_RETURN_IF_ERROR(Checked(cudaMemsetAsync(memory, 0, size, own), "cudaMemsetAsync"));
  SL_RETURN_IF_ERROR(Checked(cudaStreamSynchronize(own), "cudaStreamSynchronize"));
  return memory;
}

absl::StatusOr<void*> DeviceMemory::AllocateHost(int64_t bytes, bool* is_failure) {
  *is_failure = true;
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const cudaError_t error = cudaHostAlloc(&memory, size, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    *is_failure = false;
    (void)cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes of pinned memory"));
  }
  SL_RETURN_IF_ERROR(Checked(error, "cudaHostAlloc"));
  host_.push_back(memory);
  std::memset(memory, 0, size);
  return memory;
}

int DeviceMemory::GpuOf(const void* memory) const {
  const auto* const at = static_cast<const char*>(memory);
  const auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return -1;
  const auto& [begin, block] = *std::prev(after);
  return at < begin + block.bytes ? block.gpu : -1;
}

// Between GPUs without peer access CUDA copies through the host.
cudaError_t DeviceMemory::Copy(void* to, const void* from, int64_t bytes, cudaStream_t native,
                               const char** call) const {
  const auto size = static_cast<size_t>(bytes);
  const int there = gpus_->count() == 1 ? -1 : GpuOf(to);
  const int here = gpus_->count() == 1 ? -1 : GpuOf(from);
  if (there >= 0 && here >= 0 && !gpus_->Reaches(there, here)) {
    *call = "cudaMemcpyPeerAsync";
    return cudaMemcpyPeerAsync(to, gpus_->ordinal(there), from, gpus_->ordinal(here), size, native);
  }
  *call = "cudaMemcpyAsync";
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, native);
}

absl::Status DeviceMemory::CopyNow(void* to, const void* from, int64_t bytes) const {
  const cudaStream_t own = gpus_->own(std::max({GpuOf(to), GpuOf(from), 0}));
  const char* call = nullptr;
  const cudaError_t error = Copy(to, from, bytes, own, &call);
  SL_RETURN_IF_ERROR(Checked(error, call));
  return Checked(cudaStreamSynchronize(own), "cudaStreamSynchronize");
}

}  // namespace stringline::cuda
