// A kernel's host twin: a function with the same parameters and effect on the CPU. The stand-in for
// the CUDA runtime, which tests link, runs the twin in the kernel's place; beside the real runtime
// these declarations have no effect.
#pragma once

#include <cstddef>
#include <utility>

#include "executor/cuda/bodies/own_kernels.h"

extern "C" {

// Grid and block as launched; args[i] points to the i-th argument.
typedef void (*HostTwinCall)(const unsigned grid[3], const unsigned block[3], void* const* args);

// Defined by the stand-in only. The kernel is identified by the address of its host function, and
// sizes[i] are the bytes of its i-th parameter.
__attribute__((weak)) void stringline_host_twin(const void* kernel, HostTwinCall call,
                                                const size_t* sizes, int count);

// Defined by the stand-in only, and called by a twin: the duration of its kernel.
__attribute__((weak)) void stringline_twin_takes(long long ns);

}  // extern "C"

namespace stringline {

// Lists kKernel among OwnKernels, and makes kTwin its twin, in an initialiser before main:
//
//   const bool has_twin = HasTwin<Kernel, Twin>();
template <auto kKernel, auto kTwin>
bool HasTwin() {
  return []<typename... Args>(void (*kernel)(Args...)) {
    ListKernel(reinterpret_cast<const void*>(kernel));
    if (stringline_host_twin == nullptr) return false;
    static constexpr size_t kSizes[] = {sizeof(Args)...};
    const HostTwinCall call = [](const unsigned*, const unsigned*, void* const* args) {
      [args]<size_t... kIndex>(std::index_sequence<kIndex...>) {
        kTwin(*static_cast<Args*>(args[kIndex])...);
      }
      (std::make_index_sequence<sizeof...(Args)>());
    };
    stringline_host_twin(reinterpret_cast<const void*>(kernel), call, kSizes, sizeof...(Args));
    return true;
  }(kKernel);
}

}  // namespace stringline
