// What CUDA says of an error, in the words of our messages.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stringline::cuda {

// "out of memory (cudaErrorMemoryAllocation)".
inline std::string ErrorText(cudaError_t error) {
  return absl::StrCat(cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
}

// OK, or Internal, with the call before it. It is CUDA's last error no more.
inline absl::Status CallStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  return absl::InternalError(absl::StrCat(call, ": ", ErrorText(error)));
}

}  // namespace stringline::cuda
