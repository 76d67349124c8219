// Causal attention and its gradient by a library, in bf16: kAttention and kAttentionGrad of
// stages/ops.def, with lse and all sums in float32.
//
// A problem's plan is chosen on its first request, and gives the same bits every time.
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
  bool deterministic = true;      // off: a gradient may have other last bits every time

  auto AsTuple() const {
    return std::tuple(gradient, batch, positions, heads, kv_heads, size, deterministic);
  }
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

// The operands of a run; all are aligned like buffers, the workspace to
// AttentionLibrary::kWorkspaceAlignment.
struct AttentionRun {
  const void* qkv;            // bf16 (B,T,(H+2K)D)
  void* y;                    // bf16 (B,T,HD); the gradient only reads y and lse
  float* lse;                 // (B,H,T)
  const void* dy = nullptr;   // bf16 (B,T,HD), only of the gradient, like the members below
  void* dqkv = nullptr;       // bf16 as qkv
  void* workspace = nullptr;  // of the plan's size; not shared with concurrent runs
};

class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;

  static constexpr int64_t kWorkspaceAlignment = 256;

  // Chooses a plan, which lives as long as the library. Never called while a stream is captured.
  // Unimplemented, with the library's message, without a plan: for head sizes that are no multiple
  // of 8, for example.
  virtual absl::StatusOr<const AttentionPlan*> Choose(const AttentionProblem& problem) = 0;
  // Enqueues a run. One thread at a time; the stream may be under capture. No memory of the GPU is
  // allocated.
  virtual absl::Status Run(const AttentionPlan* plan, const AttentionRun& run,
                           cudaStream_t stream) const = 0;
  // Problems with the plans chosen for them, a line each, in the order of problems.
  virtual std::string Describe() const = 0;
};

}  // namespace stringline::cuda
