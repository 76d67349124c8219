// Calls go on to cuDNN, but for those of a handle: the handle is one of ours, and a run is noted
// from the descriptor of its operands, whose attributes are kept as they are set.
#include "noting_cudnn.h"

#include <cudnn.h>
#include <dlfcn.h>

#include <map>
#include <vector>

namespace {

struct Operands {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  void* workspace = nullptr;
};

struct State {
  bool has_handle = false, refuses = false;
  std::map<cudnnBackendDescriptor_t, Operands> operands;
  NotedCudnnRun last;
};
State state;
int handle;  // its address is the handle

template <typename Function>
Function* Real(const char* name) {
  static void* const library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

extern "C" {

void noting_cudnn_start(bool has_handle, bool refuses) {
  state = {};
  state.has_handle = has_handle;
  state.refuses = refuses;
}
const NotedCudnnRun* noting_cudnn_last() { return &state.last; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* made) {
  if (!state.has_handle) return Real<decltype(cudnnCreate)>("cudnnCreate")(made);
  *made = reinterpret_cast<cudnnHandle_t>(&handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t one) {
  if (one != reinterpret_cast<cudnnHandle_t>(&handle)) {
    return Real<decltype(cudnnDestroy)>("cudnnDestroy")(one);
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t /*handle*/, cudaStream_t stream) {
  if (state.refuses) return CUDNN_STATUS_BAD_PARAM;
  state.last.stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t /*handle*/, cudaStream_t* stream) {
  *stream = static_cast<cudaStream_t>(state.last.stream);
  return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion() { return Real<decltype(cudnnGetVersion)>("cudnnGetVersion")(); }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return Real<decltype(cudnnGetErrorString)>("cudnnGetErrorString")(status);
}
void cudnnGetLastErrorString(char* message, size_t size) {
  Real<decltype(cudnnGetLastErrorString)>("cudnnGetLastErrorString")(message, size);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  const cudnnStatus_t status =
      Real<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor")(type, made);
  if (status == CUDNN_STATUS_SUCCESS && type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    state.operands[*made] = {};
  }
  return status;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t one) {
  state.operands.erase(one);
  return Real<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor")(one);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t one) {
  return Real<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize")(one);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t one,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  if (const auto found = state.operands.find(one); found != state.operands.end()) {
    Operands& operands = found->second;
    if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) {
      const auto* const ids = static_cast<const int64_t*>(values);
      operands.ids.assign(ids, ids + count);
    } else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) {
      auto* const* const pointers = static_cast<void* const*>(values);
      operands.pointers.assign(pointers, pointers + count);
    } else if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
      operands.workspace = *static_cast<void* const*>(values);
    }
  }
  return Real<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute")(one, name, type,
                                                                              count, values);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t one,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked,
                                       int64_t* count, void* values) {
  return Real<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute")(one, name, type,
                                                                              asked, count, values);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t /*handle*/, cudnnBackendDescriptor_t /*plan*/,
                                  cudnnBackendDescriptor_t pack) {
  const auto found = state.operands.find(pack);
  if (found == state.operands.end() || found->second.ids.size() != found->second.pointers.size()) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  ++state.last.runs;
  state.last.workspace = found->second.workspace;
  state.last.operands.clear();
  for (size_t i = 0; i < found->second.ids.size(); ++i) {
    state.last.operands[found->second.ids[i]] = found->second.pointers[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
