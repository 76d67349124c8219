// The frontend's headers call cudnn.h's functions by name. This file defines them, each forwarding
// to the library; it is compiled with hidden symbols, so that the library never binds to these
// definitions instead of its own.
#include "executor/cuda/cudnn_library.h"

#include <cudnn.h>
#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"

namespace stringline::cuda {
namespace {

//   X(result, function, parameters, arguments)
#define STRINGLINE_CUDNN_FUNCTIONS(X)                                                             \
  X(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), (handle))                               \
  X(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), (handle))                                \
  X(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), (handle, stream)) \
  X(cudnnStatus_t, cudnnGetStream, (cudnnHandle_t handle, cudaStream_t * stream),                 \
    (handle, stream))                                                                             \
  X(size_t, cudnnGetVersion, (), ())                                                              \
  X(const char*, cudnnGetErrorString, (cudnnStatus_t status), (status))                           \
  X(void, cudnnGetLastErrorString, (char* message, size_t size), (message, size))                 \
  X(cudnnStatus_t, cudnnBackendCreateDescriptor,                                                  \
    (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * made), (type, made))           \
  X(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t one), (one))          \
  X(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t one), (one))                   \
  X(cudnnStatus_t, cudnnBackendSetAttribute,                                                      \
    (cudnnBackendDescriptor_t one, cudnnBackendAttributeName_t name,                              \
     cudnnBackendAttributeType_t type, int64_t count, const void* values),                        \
    (one, name, type, count, values))                                                             \
  X(cudnnStatus_t, cudnnBackendGetAttribute,                                                      \
    (cudnnBackendDescriptor_t one, cudnnBackendAttributeName_t name,                              \
     cudnnBackendAttributeType_t type, int64_t asked, int64_t * count, void* values),             \
    (one, name, type, asked, count, values))                                                      \
  X(cudnnStatus_t, cudnnBackendExecute,                                                           \
    (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t operands),     \
    (handle, plan, operands))

struct Functions {
#define X(result, function, parameters, arguments) decltype(&::function) function = nullptr;
  STRINGLINE_CUDNN_FUNCTIONS(X)
#undef X
};

absl::Status Find(const char* name, Functions* found) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("cuDNN cannot be loaded: ", dlerror()));
  }
#define X(result, function, parameters, arguments)                                          \
  found->function = reinterpret_cast<decltype(found->function)>(dlsym(library, #function)); \
  if (found->function == nullptr) {                                                         \
    return absl::UnavailableError(absl::StrCat(name, " has no " #function));                \
  }
  STRINGLINE_CUDNN_FUNCTIONS(X)
#undef X
  return absl::OkStatus();
}

Functions opened;

}  // namespace

absl::Status OpenCudnn(const char* name) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (opened.cudnnBackendExecute != nullptr) return absl::OkStatus();
  Functions found;
  absl::Status status = Find(name, &found);
  if (status.ok()) opened = found;
  return status;
}

}  // namespace stringline::cuda

extern "C" {

#define X(result, function, parameters, arguments)                                        \
  result CUDNNWINAPI function parameters {                                                \
    SL_CHECK(stringline::cuda::opened.function != nullptr) << #function " without cuDNN"; \
    return stringline::cuda::opened.function arguments;                                   \
  }
STRINGLINE_CUDNN_FUNCTIONS(X)
#undef X

}  // extern "C"
