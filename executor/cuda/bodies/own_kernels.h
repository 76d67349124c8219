// The kernels of this program, in a list that is filled before main.
//
// CUDA loads the code of a kernel at its first launch, and that may wait until the GPU is idle. A
// process with messages that wait for another process must load all kernels before the first
// message: otherwise the launch waits for the message, and the message for what the host would
// launch next (CUDA C++ Programming Guide, lazy loading).
#pragma once

#include <vector>

namespace stringline {

inline std::vector<const void*>& OwnKernels() {
  static auto* const kernels = new std::vector<const void*>;
  return *kernels;
}

// Adds the kernel with this host function; returns true.
inline bool ListKernel(const void* kernel) {
  OwnKernels().push_back(kernel);
  return true;
}

}  // namespace stringline
