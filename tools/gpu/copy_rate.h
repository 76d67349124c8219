// The rate of the GPU's memory: the measure for memory-bound kernels.
#pragma once

#include "absl/status/statusor.h"
#include "executor/cuda/device.h"

namespace stringline {

// Bytes read and written per second by copies inside the device.
absl::StatusOr<double> CopyRate(CudaDevice* device);

}  // namespace stringline
