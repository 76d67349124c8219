// Costs from the shape of a model and the speed of a machine, for when nothing has been measured.
//
// A stage holds transformer layers: attention (grouped heads, causal, flash) and a feed-forward
// network, gated (llama) or not (gpt), dense or of experts (moe); the first stage also the
// embedding, the last one the head. With T tokens a microbatch, h the width, q of all queries, k of
// all keys and values together, c the context, g matrices of f hidden channels at the network's
// entry (2 if gated, or 1; f of the experts of a token), n networks' inputs (1; of experts top_k,
// and 1 more with a shared one), and u = T h bytes, a layer takes
//
//   F  2 T (h (2q + k) + (g + 1) h f) + 2 T c q    floating point operations: products, attention
//   I  the same products, and 2.5 times the attention (flash attention computes its scores again)
//   W  the products alone
//
// and what norms, residuals, rotations and the gate move, at its memory's bandwidth: (10 + 2 q/h +
// 2 k/h + (g + 1) f/h) u in F, twice that in I; a layer of experts also 6 top_k u for the rows that
// go to experts and come back, and the head 4 T V bytes of logits. It keeps for I (2 + q/h + k/h +
// g f/h) u, for W (1 + n + q/h + f/h) u, and from I to W (2 + q/h + k/h + g f/h) u: every matrix
// product's input, and the gradient of its output; the head keeps its input and the logits.
// Everything is divided by the tensor-parallel ranks, and by those that share a sequence. A slice
// of K has a K-th of the rows of every product (fewer rows fill fewer tiles, and each slice reads
// the weights again), and slice i, with the keys of all slices so far, (2 i + 1) / K^2 of the
// attention. Collectives inside layers are in part_formula.h. The embedding's work is not counted.
//
// Latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1), with heads of d channels, r more
// of positions, and v of values: products h (q_rank + kv_rank + r), q_rank heads (d + r), kv_rank
// heads (d + v), heads v h; attention T c heads (d + r + v). With a window of w every second layer
// attends to w keys: 4 T w q. Attention that is not fused computes with masked keys, too, twice as
// much in I as in F, and moves 13 bytes of a score in F, 19 in I: scores, softmax and what dropout
// leaves of it have 2 bytes, dropout's mask has 1 (Narayanan et al. 2021, arXiv 2104.04473, section
// 4.2: scaling, mask and softmax are one kernel). F writes the scores, reads them and writes the
// softmax, reads it and writes mask and result, reads the result; I reads that for the gradient of
// values, writes its gradient, reads it with the mask and writes the softmax's, reads that with the
// softmax and writes the scores', and reads these for queries and for keys.
// Further predicted tokens (DeepSeek-V3, section 2.2) are layers of the last stage, each with a
// product 2h x h and the head once more.
//
// Megatron-LM's layers of experts also wait `experts_overhead` for each of the rank's experts: the
// host waits for numbers of rows, and starts small kernels for every expert (its casts and its
// products). With a `capacity` c every expert has c times its even share of rows, dropped or padded
// (Lepikhin et al. 2020, GShard, section 2.2): the work of experts is c times as much, and a
// quarter of the waits stays (assumed: about what one model's steps with and without say,
// tools/validation).
//
// Layers that recompute do their F again at the beginning of their I, and keep u. Layers whose
// values wait on the host copy them there beside their own F, and back beside I and W; a copy that
// takes longer than these makes them longer.
//
// Speed: a product of m x k by k x n takes 2 m k n operations at `efficiency` of the precision's
// rate, but no less time than its bytes. A machine that says `processors` also waits for the last
// tiles: products are cut into tiles of 128 x 256 (or 128 x 128 at nine tenths of the rate), one a
// processor at a time, as libraries of matrix products do it (NVIDIA, Matrix Multiplication
// Background User's Guide, on wave quantization). Precisions of 8 and 4 bits read a product's
// operands in 16 bits and write them narrow, 4 bytes an element, in F its input and in I its
// output's gradient; attention, norms and the head stay in 16 bits (NVIDIA, Transformer Engine
// User Guide). The inputs kept for W are narrow, and attention's result is kept beside its own.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/costs/model_keys.h"

namespace stringline {

// The precision of matrix products; the rest computes in 16 bits, or all in fp32.
enum class Precision : uint8_t { kFp32, kBf16, kFp8, kMxfp8, kNvfp4 };
inline constexpr const char* kPrecisions[] = {"fp32", "bf16", "fp8", "mxfp8", "nvfp4"};
inline bool IsNarrow(Precision precision) { return precision >= Precision::kFp8; }

// The layouts of a mesh's ranks (data_parallel.h).
enum class MeshLayout : uint8_t { kOwn, kMegatron };

// Messages between GPUs `a` and `b` of Megatron's layout take `share` times their time more.
struct SlowPair {
  int64_t a = 0, b = 0;
  double share = 0;
  friend bool operator==(const SlowPair&, const SlowPair&) = default;
};

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
  int64_t top_groups = 0;                                        // experts' groups of a token
  int64_t q_rank = 0, kv_rank = 0, rope_dim = 0, value_dim = 0;  // of latent attention
  int64_t window = 0;                                            // in every second layer
  int64_t predicted = 0;                                         // further tokens
  int64_t microbatch = 1;                                        // sequences
  int64_t tensor = 1;                                            // ranks that share every layer
  int64_t sequence = 1;       // ranks that share every sequence, mesh.context
  int64_t pipeline = 0;       // ranks of the pipeline
  int64_t copies = 1;         // pipelines in the data direction, mesh.data
  int64_t expert = 1;         // for each of them, the number of ranks that share out the experts
  int64_t shard = 0;          // copies that share state out (data_parallel.h); 0: mesh.data
  int64_t replicate = 0;      // in place of `shard`: mesh.data / shard; 0: not given
  int64_t bucket = 25 << 20;  // bytes of gradients that are reduced at once
  int64_t bytes = 2;          // per weight and per activation's element
  Precision precision = Precision::kBf16;
  MeshLayout layout = MeshLayout::kOwn;
  // The layers of every stage that keep only their input and do their F again; and whether the
  // others do what is cheap again: norms, the gate, and latent attention's last products.
  int64_t recomputed_layers = 0;
  int64_t hosted_layers = 0;  // further layers whose values wait on the host
  bool recomputes_cheap = false;
  bool writes_scores = false;  // attention is not fused: all scores go through memory
  // The rows of an expert that drops others, over its even share, in millionths; 0: none is
  // dropped.
  int32_t capacity = 0;
  int64_t slices = 1;  // of a microbatch, as the plan says
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// The speed of matrix products in a precision, and what was fitted beside it to runs of
// Megatron-LM: both count in its layout alone.
struct ProductSpeed {
  double flops = 0;         // a second, dense
  double efficiency = 0.5;  // for products that fill the machine
  double hidden = 0;        // the share of collectives inside layers that computation hides
  // A layer takes so much longer for each of the rank's experts, a third of it in F and the rest
  // in I.
  int64_t experts_ns = 0;
  friend bool operator==(const ProductSpeed&, const ProductSpeed&) = default;
};

struct MachineSpeed {
  std::string name;
  double flops = 0;             // a second, dense, of bf16 or fp32
  double memory_bandwidth = 0;  // bytes a second
  double efficiency = 0.5;      // for matrix products
  double hidden = 0;            // as in ProductSpeed, as is the next
  int64_t experts_ns = 0;
  double memory_efficiency = 1;        // the share of the bandwidth that is reached
  double attention = 0;                // for attention, of `flops`; 0: as for products
  double attention_gradient = 0;       // the same in I
  double host_bandwidth = 0;           // to the host, each way
  int64_t processors = 0;              // that compute a tile each; 0: tiles are not counted
  std::array<ProductSpeed, 3> narrow;  // fp8, mxfp8, nvfp4
  friend bool operator==(const MachineSpeed&, const MachineSpeed&) = default;
};
ProductSpeed SpeedOf(const MachineSpeed& machine, Precision precision);

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

// The layers of a stage, with those of further predicted tokens; and the share of them that do
// their F again.
int64_t LayersOf(const ModelShape& model, const StagePart& part);
double RecomputedShare(const ModelShape& model, const StagePart& part);

// The rows that experts compute, over those that tokens choose.
double RowsKept(const ModelShape& model);

// Bytes of a layer's keys and values on a rank.
double KeyBytes(const ModelShape& model);

// Bytes of an activation between two layers, on the ranks that share a layer.
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
