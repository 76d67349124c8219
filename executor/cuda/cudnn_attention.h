// Attention by cuDNN.
//
// A plan takes about half a second: it is compiled. A gradient's plan takes 2 B H T^2 bytes of
// workspace and more, the price of the same bits every time. The library is looked up at run time,
// so that programs start on machines without it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/attention_library.h"

namespace stringline::cuda {

// For the current GPU. Unavailable: this build is without cuDNN, or this machine has no such
// library, or the library finds no GPU. A run allocates some host memory.
absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttention();

// For a GPU that need not be present, described in cuDNN's JSON: its plans can be chosen, but not
// run; with a handle they can, by a library that gives a handle without a GPU, as in tests.
absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttentionFor(const std::string& device,
                                                                    bool with_handle = false);

}  // namespace stringline::cuda
