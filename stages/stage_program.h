// The computations of a stage's actions: the second waist.
//
// Programs as in Graph-Based Pipeline Parallelism and the Zero Bubble paper:
//
//   forward         F(params, inputs, [target])    -> outputs | loss, saved…
//   backward        B(params, saved…, [out grads]) -> [in grads], all param grads
//   input_gradient  I(params, saved…, [out grads]) -> [in grads], eager param grads, stash…
//   weight_gradient W(saved…, stash…)              -> the other param grads
//   recompute       R(params, saved…)              -> other saved…
//
// Most stages have one input and one output. Where a value is read by several later stages, a
// skip connection's for example, several values may cross between two stages, or come from several:
// each is an input of its own, and a stage that only hands a value on has it as input and output.
// Values of whole numbers have no gradients.
//
// I then W do exactly the arithmetic of B. W takes the big products (a weight's gradient from its
// input and its output gradient); norms, biases, and the head's weight gradient are eager: they
// stay in I. A first stage has no in grad; its I is anchored on the gradient of the embedding's
// output, so that the chain through the layers is I's work and not W's. W reads no parameter,
// unless it recomputes its needs of the forward (recompute.h).
//
// A stage with collectives (a mixture of experts whose experts are shared out) does its B as I and
// then W, part by part; its `backward` is their reference.
//
// With R (`remakes`), F gives the saved values that are not remade, some of which only R reads, and
// R the others. Without R its graph is empty, and F gives all.
//
// Saved k and stash k have the same index in every program; weight_gradient has input ports only
// for the saved values it reads.
//
// Nothing is copied to be handed on. A value with a later use simply has two ports:
//   - saved k may also be the forward's input or target (kInput and kSaved k name one value), or
//     its output; the owner of the buffers copies the input into the slot of saved k, or binds both
//     to one buffer;
//   - stash k may also be the input gradient program's out grad, or its in grad.
// A value of a kParamGrad port has no other port and no node reads it, so the accumulator itself
// can be the buffer that its node adds into.
//
// Slices. A microbatch's sequences may be cut into slices, each with programs of its own (kPast,
// kKeyGrad): a slice attends to the keys and values that earlier ones left, and its backward gives
// the slice before the gradients of the keys and values of all slices up to that.
//
// Tied parameters. If a model's head is its embedding, the last stage holds `head.weight` with
// tied_to `embedding.weight`, and the first stage `embedding.weight`: two copies of one parameter,
// also if both stages are one, so that no bit depends on the cut. Type, decay and first values are
// equal. The code that steps the parameters keeps the copies equal: after the last microbatch both
// gradients become embedding's + head's (in that order; with several pipes, after each copy's own
// sum over them), the gradient's norm and every count of parameters skip the copy with tied_to, and
// both are stepped alike. A file holds `embedding.weight` only and is loaded into both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stages/graph.h"

namespace stringline {

enum class Init : uint8_t { kZeros, kOnes, kNormal };

// The rule that makes the next step's param from a param and its gradient.
enum class Update : uint8_t {
  kAdamW,
  // A router's bias. Its "gradient" is a count: the number of slots that chose each expert, a sum
  // over the step's microbatches on every rank. It enters no norm, is neither clipped nor divided,
  // and AdamW ignores it; after each step, with `rate` a setting of the run,
  //   b[e] += rate sign(mean over all experts of load - load[e])
  // (auxiliary-loss-free balancing: Wang et al. 2024, DeepSeek-V3).
  kBalance,
  // A running average of a statistic of microbatches, BatchNorm's mean or variance. Its "gradient"
  // is the sum of the statistic over the step's n microbatches, of all copies. It enters no norm;
  // after each step, with the parameter's momentum m,
  //   v += (1 - (1 - m)^n) (sum / n - v)
  // which is torch's rule for n = 1. For more, torch averages in the order of the microbatches,
  // and this does not depend on an order.
  kAverage,
};

struct Param {
  std::string name;  // unique in the model: "layers.3.attention.qkv.weight"
  Type type;         // as graphs read it: F32 or BF16
  Init init = Init::kZeros;
  float stddev = 0;          // for kNormal
  bool decay = false;        // AdamW's weight decay applies (matrices, not norms and biases)
  bool eager = false;        // its gradient stays in I; implied for rank <= 1
  std::string tied_to = {};  // "": a parameter of its own; else the parameter copied by this
  // The first dimension is this rank's share of all experts: rank x of X has the x-th of X pieces
  // of the whole parameter. Other parameters are equal on all ranks that share out the experts.
  bool expert = false;
  Update update = Update::kAdamW;
  double momentum = 0;  // of kAverage
  // Has no gradient: no program has a port for it, its accumulator stays zero, and so AdamW,
  // without decay, leaves the parameter as it is.
  bool frozen = false;
  friend bool operator==(const Param&, const Param&) = default;
};

// The type of a parameter's gradient, its moments and, for BF16, its unrounded values: F32.
inline Type GradTypeOf(const Param& param) { return {DType::kF32, param.type.shape}; }

struct Saved {
  Type type;
  bool needed_by_weight = false;  // W reads it too: it lives from F to W, not only to I
  bool remade = false;            // by R; F gives it otherwise
  friend bool operator==(const Saved&, const Saved&) = default;
};

// Some of a graph's nodes, in a row: first_node .. end_node - 1.
struct GraphPart {
  bool network = false;  // collectives only; a compute part has none
  int first_node = 0;
  int end_node = 0;
  friend bool operator==(const GraphPart&, const GraphPart&) = default;
};

// The place of a slice among those of a microbatch's sequences.
struct SlicePlace {
  int index = 0;
  int of = 1;
  bool is_last() const { return index + 1 == of; }
  friend bool operator==(const SlicePlace&, const SlicePlace&) = default;
};

// A value that enters or leaves a stage. `edge` counts the edges that lead to the stage, or that
// leave it, in the order of their other ends; kNoEdge: tokens, or the loss.
struct Crossing {
  static constexpr int kNoEdge = -1;
  Type type;
  int edge = 0;
  int64_t first = 0;  // of tokens: the place of the first one in its sequence
  bool is_tokens() const { return edge == kNoEdge && type.dtype == DType::kI32; }
  friend bool operator==(const Crossing&, const Crossing&) = default;
};

struct StageProgram {
  bool first = false;  // its first input is tokens; a later stage may read tokens, too
  bool last = false;   // ends in the loss
  std::vector<Param> params;
  std::vector<Crossing> inputs;   // per microbatch; those of an edge are together
  std::vector<Crossing> outputs;  // on the last stage: the scalar loss
  Type target;                    // on the last stage
  int64_t first_target = 0;       // the place of the first token with a target in its sequence
  // The positions of tokens in their documents (Role::kPositions), I32 (B,T), where sequences are
  // packed and the stage reads them.
  std::optional<Type> positions;
  std::optional<Type> mask_key;  // Role::kMaskKey, I32 (4), where the stage has dropout
  std::vector<Saved> saved;
  std::vector<Type> stash;
  Graph forward;
  Graph backward;
  Graph input_gradient;
  Graph weight_gradient;
  Graph recompute;
  bool remakes = false;  // the stage has R
  int moe_layers = 0;    // kAuxLoss and kDropped ports are numbered by them
  // The graphs in parts (cut.h). For forward and input_gradient: compute 0, network 0, compute 1,
  // network 1, ..., compute 2 moe_layers. For weight_gradient: for each compute part of
  // input_gradient the work possible once that part is done; some may be empty.
  std::vector<GraphPart> forward_parts;
  std::vector<GraphPart> input_gradient_parts;
  std::vector<GraphPart> weight_gradient_parts;
  // With slices, these are the programs of the first slice, and input, output and target are those
  // of a slice. The programs of the others have the same parameters, and read the keys and values
  // of earlier slices (kPast).
  SlicePlace slice;
  int attention_layers = 0;  // kPast, kKeys and the gradients of keys are numbered by them
  Type keys;                 // of a slice in one of these layers: (B, T / slices, 2 K D)
  // Without backwards the keys of all slices so far go on to the slice behind: kKeys of slice k has
  // the index attention layer * (k + 1) + slice.
  bool hands_keys_on = false;
  std::vector<StageProgram> later_slices;
  const StageProgram& OfSlice(int k) const {
    return k == 0 ? *this : later_slices[static_cast<size_t>(k) - 1];
  }
  friend bool operator==(const StageProgram&, const StageProgram&) = default;
};

}  // namespace stringline
