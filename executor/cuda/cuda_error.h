// Errors of CUDA as statuses and texts.
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

// cudaEventQuery and cudaStreamQuery without a trace: "not ready" would stay CUDA's last error, and
// be taken for the next launch's.
inline cudaError_t Query(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}
inline cudaError_t Query(cudaStream_t stream) {
  const cudaError_t error = cudaStreamQuery(stream);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

// OK, or Internal, with the call's name. Clears CUDA's last error.
inline absl::Status CallStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  return absl::InternalError(absl::StrCat(call, ": ", ErrorText(error)));
}

// OK, or the error of a call, with `where` (" on STREAM"): ResourceExhausted if memory is short,
// else Internal. Clears CUDA's last error.
inline absl::Status Checked(cudaError_t error, const char* call, const std::string& where = "") {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string text = absl::StrCat(call, where, ": ", ErrorText(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                            : absl::InternalError(text);
}

}  // namespace stringline::cuda
