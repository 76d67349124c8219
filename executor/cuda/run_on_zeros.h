// A run of a library's kernel on zeroed memory, before the first step: its code is then loaded
// (own_kernels.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace stringline::cuda {

// Calls `run` with an address for each size, aligned for every library, and waits until it has
// ended on the current GPU. ResourceExhausted if memory is short.
absl::Status RunOnZeros(
    const std::vector<int64_t>& sizes,
    absl::FunctionRef<absl::Status(absl::Span<char* const> at, cudaStream_t stream)> run);

}  // namespace stringline::cuda
