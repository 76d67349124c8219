// Kernels: registered and launched as by code from nvcc, run by their host twins.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "entry.h"
#include "executor/cuda/bodies/host_twin.h"
#include "executor/cuda/declared_use.h"

namespace {

// Dynamic shared memory of a block: the default, and the maximum. An H100's; kernels' static shared
// memory is unknown here.
constexpr size_t kUsualShared = 48 << 10;
constexpr int kMostShared = 227 << 10;

struct Twin {
  HostTwinCall call = nullptr;
  std::vector<size_t> sizes;
  size_t most_shared = kUsualShared;  // as requested
};

std::map<const void*, Twin>& Twins() {
  static auto* const twins = new std::map<const void*, Twin>;
  return *twins;
}

struct Configuration {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;
thread_local std::vector<standin::Use> declared;

constexpr size_t kUnit = sizeof(std::max_align_t);

cudaError_t Launch(standin::Machine& machine, const void* kernel, dim3 grid, dim3 block,
                   void** args, size_t shared, cudaStream_t handle) {
  STANDIN_FIND(stream, handle);
  if (!machine.MayLaunch(*stream)) return machine.Fail(cudaErrorInvalidResourceHandle);
  const auto found = Twins().find(kernel);
  if (found == Twins().end()) {
    std::fprintf(stderr, "stand-in: a kernel without a host twin\n");
    return machine.Fail(cudaErrorInvalidDeviceFunction);
  }
  const auto is_empty = [](dim3 size) { return size.x == 0 || size.y == 0 || size.z == 0; };
  if (is_empty(grid) || is_empty(block) || block.x * block.y * block.z > 1024 || grid.y > 65535 ||
      grid.z > 65535) {
    return machine.Fail(cudaErrorInvalidConfiguration);
  }
  if (shared > found->second.most_shared) return machine.Fail(cudaErrorInvalidValue);
  // The present arguments, each aligned for any type.
  const Twin& twin = found->second;
  std::vector<std::vector<std::max_align_t>> kept;
  for (size_t i = 0; i < twin.sizes.size(); ++i) {
    std::vector<std::max_align_t> value((twin.sizes[i] + kUnit - 1) / kUnit);
    std::memcpy(value.data(), args[i], twin.sizes[i]);
    kept.push_back(std::move(value));
  }
  const auto play = [twin = &twin, grid, block, kept = std::move(kept)]() mutable {
    std::vector<void*> pointers;
    for (auto& value : kept) pointers.push_back(value.data());
    const unsigned grid_size[] = {grid.x, grid.y, grid.z};
    const unsigned block_size[] = {block.x, block.y, block.z};
    twin->call(grid_size, block_size, pointers.data());
  };
  return machine.Enqueue(stream, {play, "a kernel", declared});
}

}  // namespace

extern "C" {

void stringline_host_twin(const void* kernel, HostTwinCall call, const size_t* sizes, int count) {
  Twins()[kernel] = {call, std::vector<size_t>(sizes, sizes + count), kUsualShared};
}

void stringline_declare(const StringlineUse* uses, int count) {
  const standin::Inside inside;
  declared.clear();
  for (int i = 0; i < count; ++i) {
    declared.push_back({uses[i].begin, uses[i].bytes, uses[i].writes != 0});
  }
}
void stringline_twin_uses(const void* begin, size_t bytes, int writes) {
  standin::Machine::Get().NoteUse({begin, bytes, writes != 0});
}

void stringline_twin_takes(long long ns) { standin::Machine::Get().takes_ns = ns; }

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
char __cudaInitModule(void** /*handle*/) { return 1; }
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     struct CUstream_st* stream) {
  const standin::Inside inside;
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  *grid = configurations.back().grid;
  *block = configurations.back().block;
  *shared = configurations.back().shared;
  *static_cast<cudaStream_t*>(stream) = configurations.back().stream;
  configurations.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entry) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(entry));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared, cudaStream_t stream) {
  STANDIN_ENTER("a kernel's launch");
  return Launch(machine, kernel, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernel(const void* entry, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  STANDIN_ENTER("cudaLaunchKernel");
  return Launch(machine, entry, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t run, void* self) {
  STANDIN_ENTER("cudaLaunchHostFunc");
  STANDIN_FIND(stream, handle);
  return machine.Enqueue(stream, {[run, self] { run(self); }, "a host function", {}});
}

cudaError_t cudaFuncSetAttribute(const void* entry, cudaFuncAttribute attribute, int value) {
  STANDIN_ENTER("cudaFuncSetAttribute");
  const auto found = Twins().find(entry);
  if (found == Twins().end()) return machine.Fail(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      value > kMostShared) {
    return machine.Fail(cudaErrorInvalidValue);
  }
  found->second.most_shared = static_cast<size_t>(value);
  return cudaSuccess;
}

}  // extern "C"
