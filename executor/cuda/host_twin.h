// A kernel's host twin: a function with the same parameters that does the same on the CPU. The
// stand-in for the CUDA runtime, which tests link, runs it in the kernel's place; beside the real
// runtime nothing here does anything.
#pragma once

#include <cstddef>
#include <utility>

extern "C" {

// Grid and block as they were launched; args[i] points to the i-th argument.
typedef void (*HostTwinCall)(const unsigned grid[3], const unsigned block[3], void* const* args);

// Only the stand-in has it. The kernel is known by the address of its host function, and sizes[i]
// are the bytes of its i-th parameter.
__attribute__((weak)) void stringline_host_twin(const void* kernel, HostTwinCall call,
                                                const size_t* sizes, int count);

// Only the stand-in has it, and only a twin calls it: so long its kernel takes.
__attribute__((weak)) void stringline_twin_takes(long long ns);

}  // extern "C"

namespace stringline {

// Makes kTwin the twin of kKernel:  static const bool registered = HasTwin<Kernel, Twin>();
template <auto kKernel, auto kTwin>
bool HasTwin() {
  return []<typename... Args>(void (*kernel)(Args...)) {
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
