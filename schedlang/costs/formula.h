// Costs from the shape of a model and the speed of a machine, for when nothing has been measured.
//
// A stage holds transformer layers: attention (grouped heads, causal, flash) and a feed-forward
// network, gated (llama) or not (gpt), dense or of experts (moe); the first stage also the
// embedding, the last one the head. With T tokens a microbatch, h the width, q of all queries, k of
// all keys and values together, c the context, g matrices of f hidden channels at the network's
// entry (2 if gated, or 1; f of the experts of a token), and u = T h bytes, a layer takes
//
//   F  2 T (h (2q + k) + (g + 1) h f) + 2 T c q    floating point operations: products, attention
//   I  the same products, and 2.5 times the attention (flash attention computes its scores again)
//   W  the products alone
//
// at `efficiency` of the machine's rate, and what norms, residuals, rotations and the gate move, at
// its memory's bandwidth: (10 + 2 q/h + 2 k/h + (g + 1) f/h) u in F, twice that in I. It keeps for
// I (2 + q/h + k/h + g f/h) u, for W (2 + q/h + f/h) u, and from I to W (2 + q/h + k/h + g f/h) u:
// every matrix product's input, and the gradient of its output. Everything is divided by the
// tensor-parallel ranks. Of slice i of K the products are a K-th, and the attention, to the keys of
// all slices so far, (2 i + 1) / K^2. Collectives inside layers are in part_formula.h. The bytes
// that a router moves are not counted, nor is the embedding's work.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/costs/model_keys.h"

namespace stringline {

// As the keys of the same names in model_keys.def say; 0: not said.
struct ModelShape {
  ModelKind kind = kGptModel;
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t context = 0;
  int64_t vocabulary = 256;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t hidden = 0;  // in a dense layer; gpt: 4 times the width
  int64_t experts = 0, top_k = 0, expert_hidden = 0, shared_hidden = 0, first_dense = 0;
  int64_t microbatch = 1;     // sequences
  int64_t tensor = 1;         // ranks that share every layer
  int64_t pipeline = 0;       // ranks of the pipeline
  int64_t copies = 1;         // pipelines in the data direction, mesh.data
  int64_t expert = 1;         // for each of them, the number of ranks that share out the experts
  int64_t shard = 0;          // copies that share state out (data_parallel.h); 0: mesh.data
  int64_t replicate = 0;      // in place of `shard`: mesh.data / shard; 0: not given
  int64_t bucket = 25 << 20;  // bytes of gradients that are reduced at once
  int64_t bytes = 2;          // per weight and per activation's element
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

struct MachineSpeed {
  std::string name;
  double flops = 0;             // a second, dense, in the element type
  double memory_bandwidth = 0;  // bytes a second
  double efficiency = 0.5;      // for matrix products
  friend bool operator==(const MachineSpeed&, const MachineSpeed&) = default;
};

// Times of computation, in nanoseconds.
struct ComputeTimes {
  int64_t forward_ns = 0, input_gradient_ns = 0, weight_gradient_ns = 0;
};

// Times and sizes of a stage, in nanoseconds and bytes.
struct StageFormula {
  int64_t forward_ns = 0, input_gradient_ns = 0, weight_gradient_ns = 0;
  int64_t parameters = 0;
  int64_t expert_parameters = 0;                        // among them: those of the rank's experts
  int64_t saved_for_i = 0, saved_for_w = 0, stash = 0;  // bytes of a microbatch
  int64_t keys = 0;                                     // among saved_for_i: keys and values
  double forward_scores = 0;                            // the share of attention in F, and in I
  double input_gradient_scores = 0;
};

// The part of a model that a stage holds.
struct StagePart {
  int64_t first_layer = 0;
  int64_t layers = 0;
  bool embedding = false;
  bool head = false;
};

StageFormula FormulaOf(const ModelShape& model, const MachineSpeed& machine, const StagePart& part);

// The computation of a stage in halves of a layer, and its head: together FormulaOf's times, up to
// rounding. Where layers differ, the halves are the mean of the stage's layers. The router of a
// mixture of experts is in `attention`. Either half has half the bytes of norms and residuals.
struct HalvesFormula {
  ComputeTimes attention, network;  // of a layer
  ComputeTimes head;                // zero without one
};
HalvesFormula HalvesOf(const ModelShape& model, const MachineSpeed& machine, const StagePart& part);

// The number of the stage's layers without experts.
int64_t DenseLayersOf(const ModelShape& model, const StagePart& part);

// Bytes of an activation between two layers.
int64_t ActivationBytes(const ModelShape& model);

// Bytes of it that a rank sends to the next stage: tensor-parallel ranks send a share each
// (sequence parallelism: a rank has the rows of its share of the sequence).
int64_t MessageBytes(const ModelShape& model);

// Bytes that AdamW keeps for this many parameters: two moments in fp32, and beside weights of bf16
// the parameters in fp32; for all of them, shared out or not.
int64_t OptimizerBytes(const ModelShape& model, int64_t parameters);

// The time of AdamW's step over this many parameters: their fp32 gradients are read, what the
// optimizer keeps is read and written, and so are weights of fp32; weights of bf16 are written.
int64_t UpdateNs(const ModelShape& model, const MachineSpeed& machine, int64_t parameters);

}  // namespace stringline
