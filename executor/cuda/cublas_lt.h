// The functions of cuBLASLt that the engine calls, looked up at run time: programs start without
// the library.
#pragma once

#include <cublasLt.h>

#include "absl/status/statusor.h"

namespace stringline::cuda {

// Descriptors are initialised in our own memory, so none has to be destroyed. cublasLt.h's inline
// functions call those ending in _internal.
#define STRINGLINE_CUBLAS_LT_FUNCTIONS(X)  \
  X(cublasLtCreate)                        \
  X(cublasLtDestroy)                       \
  X(cublasLtGetVersion)                    \
  X(cublasLtGetStatusName)                 \
  X(cublasLtMatmulDescInit_internal)       \
  X(cublasLtMatmulDescSetAttribute)        \
  X(cublasLtMatrixLayoutInit_internal)     \
  X(cublasLtMatmulPreferenceInit_internal) \
  X(cublasLtMatmulPreferenceSetAttribute)  \
  X(cublasLtMatmulAlgoGetHeuristic)        \
  X(cublasLtMatmulAlgoConfigGetAttribute)  \
  X(cublasLtMatmul)

struct CublasLt {
#define X(function) decltype(&::function) function = nullptr;
  STRINGLINE_CUBLAS_LT_FUNCTIONS(X)
#undef X

  // Searches like the loader, so LD_LIBRARY_PATH may name the folder of a Python wheel. Unavailable
  // if the library is missing or incomplete. It stays loaded as long as the process.
  static absl::StatusOr<CublasLt> Open(const char* name = "libcublasLt.so.13");
};

}  // namespace stringline::cuda
