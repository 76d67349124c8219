// A stand-in for libcudnn.so.9 that finds no GPU: binaries linked with the stand-ins never load the
// real library, which would compute on real GPUs. Every function called by the engine is defined,
// and those after cudnnCreate are never reached.
#include <cstddef>

extern "C" {

int cudnnCreate(void** handle) {
  *handle = nullptr;
  return 1001;  // CUDNN_STATUS_NOT_INITIALIZED
}
const char* cudnnGetErrorString(int status) {
  return status == 1001 ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS_NOT_SUPPORTED";
}
size_t cudnnGetVersion() { return 91900; }
void cudnnGetLastErrorString(char* message, size_t /*size*/) { *message = '\0'; }

#define STANDIN_NOT_SUPPORTED(function) \
  int function() { return 3000; }
STANDIN_NOT_SUPPORTED(cudnnDestroy)
STANDIN_NOT_SUPPORTED(cudnnSetStream)
STANDIN_NOT_SUPPORTED(cudnnGetStream)
STANDIN_NOT_SUPPORTED(cudnnBackendCreateDescriptor)
STANDIN_NOT_SUPPORTED(cudnnBackendDestroyDescriptor)
STANDIN_NOT_SUPPORTED(cudnnBackendFinalize)
STANDIN_NOT_SUPPORTED(cudnnBackendSetAttribute)
STANDIN_NOT_SUPPORTED(cudnnBackendGetAttribute)
STANDIN_NOT_SUPPORTED(cudnnBackendExecute)

}  // extern "C"
