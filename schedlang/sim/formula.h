// Costs from the shape of a model and the speed of a machine, for when nothing has been measured.
//
// A stage holds transformer layers: attention (grouped heads, causal, flash) and a gated
// feed-forward network, dense or of experts; the first stage also the embedding, the last one the
// head. With T tokens a microbatch, h hidden, k of keys and values together, f feed-forward (of the
// active experts), s sequence, and u = T h bytes, a layer takes
//
//   F  2 T (h (2h + k) + 3 h f) + 2 T s h    floating point operations: matrix products, attention
//   I  the same products, and 2.5 times the attention (flash attention computes its scores again)
//   W  the products alone
//
// at `efficiency` of the machine's rate, and what norms, residuals, rotations and the gate move, at
// its memory's bandwidth: (12 + 2 k/h + 3 f/h) u in F, twice that in I. It keeps for I
// (3 + k/h + 2 f/h) u, for W (3 + f/h) u, and from I to W (3 + k/h + 2 f/h) u: every matrix
// product's input, and the gradient of its output. Everything is divided by the tensor-parallel
// ranks, whose own messages are not counted.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline {

struct ModelShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t vocabulary = 0;
  int64_t sequence = 0;
  int64_t microbatch = 1;  // sequences
  int64_t experts = 1;     // each with a feed-forward network of that size
  int64_t active_experts = 1;
  int64_t tensor_parallel = 1;
  int64_t data_parallel = 1;  // ranks that share the optimizer's state
  int64_t bytes = 2;          // of a weight and of an activation's element
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

struct MachineSpeed {
  std::string name;
  double flops = 0;             // a second, dense, in the element type
  double memory_bandwidth = 0;  // bytes a second
  double efficiency = 0.5;      // of matrix products
  friend bool operator==(const MachineSpeed&, const MachineSpeed&) = default;
};

// What a stage takes, in nanoseconds and bytes.
struct StageFormula {
  int64_t forward_ns = 0, input_gradient_ns = 0, weight_gradient_ns = 0;
  int64_t parameters = 0;
  int64_t saved_for_i = 0, saved_for_w = 0, stash = 0;  // bytes of a microbatch
};

// For `layers` of the model's layers, with the embedding and the head if they are there.
StageFormula FormulaOf(const ModelShape& model, const MachineSpeed& machine, int64_t layers,
                       bool embedding, bool head);

// Bytes of an activation between two stages.
int64_t MessageBytes(const ModelShape& model);

}  // namespace stringline
