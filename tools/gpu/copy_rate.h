// What the GPU's memory gives: the measure for kernels that are bound by it.
#pragma once

#include "absl/status/statusor.h"
#include "executor/cuda/device.h"

namespace stringline {

// Bytes read and written a second by copies inside the device.
absl::StatusOr<double> CopyRate(CudaDevice* device);

}  // namespace stringline
