// Attention by cuDNN.
//
// A plan takes about half a second: it is compiled. That of a gradient takes 2 B H T^2 bytes of
// workspace and more, which is what the same bits every time cost. The library is looked up at run
// time, so that programs start on machines that have none.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/attention_library.h"

namespace stringline::cuda {

// Of the current GPU. Unavailable: this build has no cuDNN, or this machine no such library, or it
// finds no GPU. A run takes some memory of the host.
absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttention();

// Of a GPU that need not be here, described in JSON as cuDNN describes one: its plans can be
// chosen, but not run.
absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttentionFor(const std::string& device);

}  // namespace stringline::cuda
