// Memory: of the device, pinned, and copies between them.
#include <cstdlib>
#include <cstring>

#include "entry.h"

namespace {

using standin::Machine;
using standin::MemoryKind;

// Filled with useless numbers, so that no code relies on zeros.
cudaError_t Take(Machine& machine, void** pointer, size_t bytes, MemoryKind kind) {
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const auto wanted = static_cast<int64_t>(bytes);
  int64_t& used = machine.devices[standin::current_device].memory_used;
  if (kind == MemoryKind::kDevice && wanted > machine.memory_bytes - used) {
    return machine.Fail(cudaErrorMemoryAllocation);
  }
  const size_t rounded = (bytes + 255) / 256 * 256;
  void* const taken = rounded < bytes ? nullptr : std::aligned_alloc(256, rounded);
  if (taken == nullptr) return machine.Fail(cudaErrorMemoryAllocation);
  std::memset(taken, 0xA5, rounded);
  machine.memory[static_cast<char*>(taken)] = {bytes, kind, standin::current_device};
  if (kind == MemoryKind::kDevice) used += wanted;
  *pointer = taken;
  return cudaSuccess;
}

cudaError_t GiveBack(Machine& machine, void* pointer, MemoryKind kind) {
  STANDIN_RETURN_IF_ERROR(machine.Forbidden());
  if (pointer == nullptr) return cudaSuccess;
  const auto found = machine.memory.find(static_cast<char*>(pointer));
  if (found == machine.memory.end() || found->second.kind != kind) {
    return machine.Fail(cudaErrorInvalidValue);
  }
  machine.RunAll();  // cudaFree waits for the device
  if (kind == MemoryKind::kDevice) {
    machine.devices[found->second.device].memory_used -= static_cast<int64_t>(found->second.bytes);
  }
  machine.uses.Forget(pointer, found->second.bytes);
  machine.memory.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

// True if both ends are whole and of the direction's kinds.
bool MayCopy(const Machine& machine, const void* to, const void* from, size_t bytes,
             cudaMemcpyKind kind, bool* pageable) {
  bool to_whole = false, from_whole = false;
  const bool to_device = machine.KindOf(to, bytes, &to_whole) == MemoryKind::kDevice;
  const bool from_device = machine.KindOf(from, bytes, &from_whole) == MemoryKind::kDevice;
  bool whole = false;
  *pageable = machine.KindOf(to, bytes, &whole) == MemoryKind::kPageable ||
              machine.KindOf(from, bytes, &whole) == MemoryKind::kPageable;
  if (!to_whole || !from_whole) return false;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

standin::Run CopyOf(void* to, const void* from, size_t bytes) {
  return {[to, from, bytes] {
            if (bytes > 0) std::memmove(to, from, bytes);  // with no bytes, addresses may be null
          },
          "a copy",
          {{from, bytes, false}, {to, bytes, true}}};
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  STANDIN_ENTER("cudaMalloc");
  return Take(machine, pointer, bytes, MemoryKind::kDevice);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned /*flags*/) {
  STANDIN_ENTER("cudaHostAlloc");
  return Take(machine, pointer, bytes, MemoryKind::kPinned);
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  STANDIN_ENTER("cudaMallocHost");
  return Take(machine, pointer, bytes, MemoryKind::kPinned);
}

cudaError_t cudaFree(void* pointer) {
  STANDIN_ENTER("cudaFree");
  return GiveBack(machine, pointer, MemoryKind::kDevice);
}

cudaError_t cudaFreeHost(void* pointer) {
  STANDIN_ENTER("cudaFreeHost");
  return GiveBack(machine, pointer, MemoryKind::kPinned);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  STANDIN_ENTER("cudaMemGetInfo");
  *free = static_cast<size_t>(machine.memory_bytes -
                              machine.devices[standin::current_device].memory_used);
  *total = static_cast<size_t>(machine.memory_bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  STANDIN_ENTER("cudaMemcpyAsync");
  STANDIN_FIND(stream, handle);
  bool pageable = false;
  // CUDA may copy through the host between GPUs without peer access; callers must not rely on it.
  if (!MayCopy(machine, to, from, bytes, kind, &pageable) || !machine.Reaches(stream->device, to) ||
      !machine.Reaches(stream->device, from)) {
    return machine.Fail(cudaErrorInvalidValue);
  }
  STANDIN_RETURN_IF_ERROR(machine.Enqueue(stream, CopyOf(to, from, bytes)));
  if (pageable && stream->capture == nullptr) {
    ++machine.pageable_copies;
    machine.WaitFor(stream);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t handle) {
  STANDIN_ENTER("cudaMemcpyPeerAsync");
  STANDIN_FIND(stream, handle);
  bool pageable = false;
  if (!MayCopy(machine, to, from, bytes, cudaMemcpyDeviceToDevice, &pageable) ||
      machine.DeviceOf(to) != to_device || machine.DeviceOf(from) != from_device) {
    return machine.Fail(cudaErrorInvalidValue);
  }
  standin::Run copy = CopyOf(to, from, bytes);
  copy.between_devices = true;
  return machine.Enqueue(stream, std::move(copy));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  STANDIN_ENTER("cudaMemcpy");
  bool pageable = false;
  if (!MayCopy(machine, to, from, bytes, kind, &pageable)) {
    return machine.Fail(cudaErrorInvalidValue);
  }
  standin::Stream* const stream = &machine.legacy;
  STANDIN_RETURN_IF_ERROR(machine.Enqueue(stream, CopyOf(to, from, bytes)));
  machine.WaitFor(stream);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  STANDIN_ENTER("cudaMemsetAsync");
  STANDIN_FIND(stream, handle);
  bool whole = false;
  const MemoryKind kind = machine.KindOf(to, bytes, &whole);
  if (kind == MemoryKind::kPageable || !whole) return machine.Fail(cudaErrorInvalidValue);
  return machine.Enqueue(
      stream,
      {[to, value, bytes] { std::memset(to, value, bytes); }, "a fill", {{to, bytes, true}}});
}

// The legacy stream delays no other, and the host does not wait.
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

}  // extern "C"
