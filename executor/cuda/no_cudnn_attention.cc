// Replaces cudnn_attention.cc if cuDNN's headers were not found.
#include "executor/cuda/cudnn_attention.h"

namespace stringline::cuda {

absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttention() {
  return absl::UnavailableError(
      "this build has no cuDNN: its headers, or those of its frontend, which tools/install brings, "
      "were not there");
}

absl::StatusOr<std::unique_ptr<AttentionLibrary>> CudnnAttentionFor(const std::string&, bool) {
  return CudnnAttention();
}

}  // namespace stringline::cuda
