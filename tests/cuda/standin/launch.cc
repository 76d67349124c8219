// Kernels: registered and launched as by code from nvcc, run by their host twins or played by the
// player of compiled code.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "entry.h"
#include "executor/cuda/bodies/host_twin.h"
#include "executor/cuda/declared_use.h"
#include "standin.h"

namespace {

// Dynamic shared memory of a block: the default, and the maximum. An H100's; kernels' static shared
// memory is unknown here.
constexpr size_t kUsualShared = 48 << 10;
constexpr int kMostShared = 227 << 10;

// Known by its twin, by nvcc's registration, or by both.
struct Kernel {
  HostTwinCall call = nullptr;        // null: no twin
  std::vector<size_t> sizes;          // of the twin's parameters
  std::string name;                   // of the compiled code
  size_t most_shared = kUsualShared;  // as requested
};

std::map<const void*, Kernel>& Kernels() {
  static auto* const kernels = new std::map<const void*, Kernel>;
  return *kernels;
}

const StandinPlayer* player = nullptr;

struct Configuration {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;
thread_local std::vector<standin::Use> declared;

constexpr size_t kUnit = sizeof(std::max_align_t);

// Memory that a twin wrote.
struct Written {
  standin::Use use;
  std::vector<char> before, after;
  char* begin() const { return static_cast<char*>(const_cast<void*>(use.begin)); }
};

// A twin's declared uses, and its results. The memory is left as it was.
std::vector<Written> RunTwinBefore(standin::Machine& machine, const Kernel& kernel,
                                   StandinLaunch* launch) {
  std::vector<Written> written;
  machine.watch_use = [&](const standin::Use& use) {
    launch->declared.push_back({use.begin, use.bytes, use.writes});
    if (!use.writes) return;
    const char* const begin = static_cast<const char*>(use.begin);
    written.push_back({use, std::vector<char>(begin, begin + use.bytes), {}});
  };
  kernel.call(launch->grid, launch->block, launch->args);
  machine.watch_use = nullptr;
  for (Written& one : written) one.after.assign(one.begin(), one.begin() + one.use.bytes);
  for (auto one = written.rbegin(); one != written.rend(); ++one) {
    std::memcpy(one->begin(), one->before.data(), one->use.bytes);
  }
  return written;
}

void PlayCompiled(const Kernel& kernel, StandinLaunch launch) {
  standin::Machine& machine = standin::Machine::Get();
  for (const standin::Use& piece : machine.ReachedMemory()) {
    launch.memory.push_back({piece.begin, piece.bytes, piece.writes});
  }
  std::vector<Written> written;
  if (launch.declared.empty() && kernel.call != nullptr) {
    written = RunTwinBefore(machine, kernel, &launch);
  }
  const StandinPlayed played = player->play(launch);
  if (played.ns > 0) machine.takes_ns = played.ns;
  if (!machine.fault.empty()) return;
  machine.fault = played.fault;
  for (const Written& one : written) {
    if (!machine.fault.empty()) return;
    const auto* const differs =
        std::mismatch(one.begin(), one.begin() + one.use.bytes, one.after.data()).first;
    if (differs == one.begin() + one.use.bytes) continue;
    machine.fault = kernel.name + " and its twin differ at byte " +
                    std::to_string(differs - one.begin()) + " of " + std::to_string(one.use.bytes);
  }
}

cudaError_t Launch(standin::Machine& machine, const void* entry, dim3 grid, dim3 block, void** args,
                   size_t shared, cudaStream_t handle) {
  STANDIN_FIND(stream, handle);
  if (!machine.MayLaunch(*stream)) return machine.Fail(cudaErrorInvalidResourceHandle);
  const auto found = Kernels().find(entry);
  std::vector<size_t> sizes;
  const bool compiled = found != Kernels().end() && player != nullptr &&
                        player->sizes(found->second.name.c_str(), &sizes);
  if (found == Kernels().end() || (!compiled && found->second.call == nullptr)) {
    std::fprintf(stderr, "stand-in: a kernel without a host twin\n");
    return machine.Fail(cudaErrorInvalidDeviceFunction);
  }
  const auto is_empty = [](dim3 size) { return size.x == 0 || size.y == 0 || size.z == 0; };
  if (is_empty(grid) || is_empty(block) || block.x * block.y * block.z > 1024 || grid.y > 65535 ||
      grid.z > 65535) {
    return machine.Fail(cudaErrorInvalidConfiguration);
  }
  const Kernel& kernel = found->second;
  if (shared > kernel.most_shared) return machine.Fail(cudaErrorInvalidValue);
  if (stream->capture == nullptr) {
    STANDIN_RETURN_IF_ERROR(machine.Load(entry, "a kernel", /*at_launch=*/true));
  }
  // The present arguments, each aligned for any type.
  if (!compiled) sizes = kernel.sizes;
  std::vector<std::vector<std::max_align_t>> kept;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<std::max_align_t> value((sizes[i] + kUnit - 1) / kUnit);
    std::memcpy(value.data(), args[i], sizes[i]);
    kept.push_back(std::move(value));
  }
  const auto play = [&kernel, compiled, grid, block, shared, uses = declared,
                     kept = std::move(kept)]() mutable {
    std::vector<void*> pointers;
    for (auto& value : kept) pointers.push_back(value.data());
    StandinLaunch launch = {kernel.name.c_str(),
                            {grid.x, grid.y, grid.z},
                            {block.x, block.y, block.z},
                            shared,
                            pointers.data(),
                            {},
                            {}};
    if (!compiled) return kernel.call(launch.grid, launch.block, launch.args);
    for (const standin::Use& use : uses) {
      launch.declared.push_back({use.begin, use.bytes, use.writes});
    }
    PlayCompiled(kernel, std::move(launch));
  };
  return machine.Enqueue(stream, {play, "a kernel", declared});
}

}  // namespace

extern "C" {

void stringline_host_twin(const void* kernel, HostTwinCall call, const size_t* sizes, int count) {
  Kernel& known = Kernels()[kernel];
  known.call = call;
  known.sizes.assign(sizes, sizes + count);
}

void standin_play_with(const StandinPlayer* with) { player = with; }
const char* standin_fault() {
  const std::string& fault = standin::Machine::Get().fault;
  return fault.empty() ? nullptr : fault.c_str();
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

// NOLINTBEGIN(bugprone-reserved-identifier): nvcc's names
void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
char __cudaInitModule(void** /*handle*/) { return 1; }
void __cudaRegisterFunction(void**, const char* entry, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Kernels()[entry].name = name;
}
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
// NOLINTEND(bugprone-reserved-identifier)

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

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* entry) {
  STANDIN_ENTER("cudaFuncGetAttributes");
  if (Kernels().find(entry) == Kernels().end()) return machine.Fail(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  return machine.Load(entry, "", /*at_launch=*/false);
}

cudaError_t cudaFuncSetAttribute(const void* entry, cudaFuncAttribute attribute, int value) {
  STANDIN_ENTER("cudaFuncSetAttribute");
  const auto found = Kernels().find(entry);
  if (found == Kernels().end()) return machine.Fail(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      value > kMostShared) {
    return machine.Fail(cudaErrorInvalidValue);
  }
  found->second.most_shared = static_cast<size_t>(value);
  return cudaSuccess;
}

}  // extern "C"
