// A stand-in for libcuda.so.1 on machines without a GPU: a driver without devices that accepts
// compiled code. cuDNN needs no more to choose plans for a GPU known by description only.
//
// C's symbols do not know their parameters, so most functions here have none.
extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuLibraryLoadData(void** library) {
  *library = &library;
  return 0;
}
int cuLibraryGetKernel(void** kernel) {
  static char any;
  *kernel = &any;
  return 0;
}
int cuLibraryUnload() { return 0; }

// CUDA_ERROR_STUB_LIBRARY, as from the library for linking.
#define STANDIN_NO_DRIVER(function) \
  int function() { return 34; }
STANDIN_NO_DRIVER(cuInit)
STANDIN_NO_DRIVER(cuGetErrorName)
STANDIN_NO_DRIVER(cuGetErrorString)
STANDIN_NO_DRIVER(cuDeviceGet)
STANDIN_NO_DRIVER(cuDeviceGetAttribute)
STANDIN_NO_DRIVER(cuDeviceGetCount)
STANDIN_NO_DRIVER(cuDevicePrimaryCtxRelease)
STANDIN_NO_DRIVER(cuDevicePrimaryCtxReset)
STANDIN_NO_DRIVER(cuDevicePrimaryCtxRetain)
STANDIN_NO_DRIVER(cuCtxGetCurrent)
STANDIN_NO_DRIVER(cuCtxGetDevice)
STANDIN_NO_DRIVER(cuCtxGetLimit)
STANDIN_NO_DRIVER(cuCtxPopCurrent)
STANDIN_NO_DRIVER(cuCtxPushCurrent)
STANDIN_NO_DRIVER(cuStreamGetCtx)
STANDIN_NO_DRIVER(cuStreamSynchronize)
STANDIN_NO_DRIVER(cuLaunchCooperativeKernel)
STANDIN_NO_DRIVER(cuLaunchKernel)
STANDIN_NO_DRIVER(cuLaunchKernelEx)
STANDIN_NO_DRIVER(cuLibraryLoadFromFile)
STANDIN_NO_DRIVER(cuLinkAddData)
STANDIN_NO_DRIVER(cuLinkAddData_v2)
STANDIN_NO_DRIVER(cuLinkAddFile_v2)
STANDIN_NO_DRIVER(cuLinkComplete)
STANDIN_NO_DRIVER(cuLinkCreate)
STANDIN_NO_DRIVER(cuLinkCreate_v2)
STANDIN_NO_DRIVER(cuLinkDestroy)
STANDIN_NO_DRIVER(cuKernelGetAttribute)
STANDIN_NO_DRIVER(cuKernelSetAttribute)
STANDIN_NO_DRIVER(cuFuncGetAttribute)
STANDIN_NO_DRIVER(cuFuncSetAttribute)
STANDIN_NO_DRIVER(cuModuleGetFunction)
STANDIN_NO_DRIVER(cuModuleGetGlobal_v2)
STANDIN_NO_DRIVER(cuModuleLoadData)
STANDIN_NO_DRIVER(cuModuleLoadDataEx)
STANDIN_NO_DRIVER(cuModuleLoadFatBinary)
STANDIN_NO_DRIVER(cuModuleUnload)
STANDIN_NO_DRIVER(cuMemcpyDtoH_v2)
STANDIN_NO_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)
STANDIN_NO_DRIVER(cuOccupancyMaxPotentialClusterSize)
STANDIN_NO_DRIVER(cuTensorMapEncodeTiled)

}  // extern "C"
