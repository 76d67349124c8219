// Causal attention and its gradient by a library, in bf16: what kAttention and kAttentionGrad of
// stages/ops.def say, with lse and all sums in float32.
//
// A problem's plan is chosen once, when it is first asked for, and gives the same bits every time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stringline::cuda {

struct AttentionProblem {
  bool gradient;
  int64_t batch, positions;       // B, T
  int64_t heads, kv_heads, size;  // H, K, D

  auto AsTuple() const { return std::tuple(gradient, batch, positions, heads, kv_heads, size); }
  friend bool operator==(const AttentionProblem&, const AttentionProblem&) = default;
  friend bool operator<(const AttentionProblem& a, const AttentionProblem& b) {
    return a.AsTuple() < b.AsTuple();
  }
};

// For messages: "the gradient of attention of 4 x 1024 positions, 12 heads of 64 channels, 4 of
// keys".
std::string ToString(const AttentionProblem& problem);

struct AttentionPlan {
  AttentionProblem problem;
  int64_t workspace_bytes = 0;
};

// Where the operands of one run are; all are aligned as buffers are, the workspace to
// AttentionLibrary::kWorkspaceAlignment.
struct AttentionRun {
  const void* qkv;            // bf16 (B,T,(H+2K)D)
  void* y;                    // bf16 (B,T,HD); the gradient only reads it, and lse
  float* lse;                 // (B,H,T)
  const void* dy = nullptr;   // bf16 (B,T,HD), only of the gradient, as what follows
  void* dqkv = nullptr;       // bf16 as qkv
  void* workspace = nullptr;  // of the plan; nothing that may run at the same time has it
};

class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;

  static constexpr int64_t kWorkspaceAlignment = 256;

  // Never while a stream is captured. Lives as long as this. Unimplemented, in the library's words,
  // where it has no plan, as for heads of sizes that are no multiple of 8.
  virtual absl::StatusOr<const AttentionPlan*> Choose(const AttentionProblem& problem) = 0;
  // Enqueues it. One thread at a time; the stream may be under capture. No memory of the GPU is
  // allocated.
  virtual absl::Status Run(const AttentionPlan* plan, const AttentionRun& run,
                           cudaStream_t stream) const = 0;
  // What was asked for and what was chosen, a line each, in the order of problems.
  virtual std::string Describe() const = 0;
};

}  // namespace stringline::cuda
