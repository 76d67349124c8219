// The beginning of every function of the runtime.
#pragma once

#include "machine.h"

namespace standin {

// During its lifetime, this thread is in the stand-in.
struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
  static inline thread_local int depth = 0;
};

}  // namespace standin

// Takes the lock, and returns if the call is to fail.
#define STANDIN_ENTER(name)                              \
  const standin::Inside inside;                          \
  standin::Machine& machine = standin::Machine::Get();   \
  const std::lock_guard<std::mutex> lock(machine.mutex); \
  if (const cudaError_t entered = machine.Enter(name); entered != cudaSuccess) return entered
// Finds the object behind a handle, or returns an error.
#define STANDIN_FIND(found, handle)         \
  auto* const found = machine.Find(handle); \
  if (found == nullptr) return machine.Fail(cudaErrorInvalidResourceHandle)
#define STANDIN_RETURN_IF_ERROR(expression) \
  if (const cudaError_t error = (expression); error != cudaSuccess) return error
