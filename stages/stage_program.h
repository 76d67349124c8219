// What one action of one stage computes: the second waist.
//
// Four programs, as in Graph-Based Pipeline Parallelism and the Zero Bubble paper:
//
//   forward         F(params, input, [target])    -> output | loss, saved…
//   backward        B(params, saved…, [out grad]) -> [in grad], all param grads
//   input_gradient  I(params, saved…, [out grad]) -> [in grad], eager param grads, stash…
//   weight_gradient W(saved…, stash…)             -> the other param grads
//
// I then W do exactly the arithmetic of B. W takes the big products (a weight's gradient from its
// input and its output gradient); norms, biases, and the head's weight gradient are eager: they
// stay in I. A first stage has no in grad; its I is anchored on the gradient of the embedding's
// output, so that the chain through the layers is I's work and not W's. W reads no parameter.
//
// Saved k and stash k have the same index in every program; weight_gradient has input ports only
// for the saved values it reads.
//
// Nothing is copied to be handed on. A value that is used later simply stands in two ports:
//   - saved k may also be the forward's input or target (kInput and kSaved k name one value), or
//     its output; whoever places buffers copies the input into the slot of saved k, or binds both
//     to one buffer;
//   - stash k may also be the input gradient program's out grad, or its in grad.
// A value of a kParamGrad port stands in that port only and no node reads it, so the accumulator
// itself can be the buffer that its node adds into.
//
// Tied parameters. Where a model's head is its embedding, the last stage holds `head.weight` with
// tied_to `embedding.weight`, and the first stage `embedding.weight`: two copies of one parameter,
// also where both stages are one, so that no bit depends on the cut. Type, decay and first values
// are equal. Whoever steps the parameters keeps them so: after the last microbatch both gradients
// become embedding's + head's (in that order; with several pipes, after each copy's own sum over
// them), the gradient's norm and every count of parameters take the one with tied_to not at all,
// and both are stepped alike. A file holds `embedding.weight` only and is loaded into both.
#pragma once

#include <string>
#include <vector>

#include "stages/graph.h"

namespace stringline {

enum class Init : uint8_t { kZeros, kOnes, kNormal };

struct Param {
  std::string name;  // unique in the model: "layers.3.attention.qkv.weight"
  Type type;
  Init init = Init::kZeros;
  float stddev = 0;          // of kNormal
  bool decay = false;        // AdamW's weight decay applies (matrices, not norms and biases)
  bool eager = false;        // its gradient stays in I; implied for rank <= 1
  std::string tied_to = {};  // "": a parameter of its own; else the one that this is a copy of
  friend bool operator==(const Param&, const Param&) = default;
};

struct Saved {
  Type type;
  bool needed_by_weight = false;  // W reads it too: it lives from F to W, not only to I
  friend bool operator==(const Saved&, const Saved&) = default;
};

struct StageProgram {
  bool first = false;  // its input is tokens
  bool last = false;   // it ends in the loss
  std::vector<Param> params;
  Type input;   // of one microbatch
  Type output;  // of the last stage: the scalar loss
  Type target;  // of the last stage
  std::vector<Saved> saved;
  std::vector<Type> stash;
  Graph forward;
  Graph backward;
  Graph input_gradient;
  Graph weight_gradient;
  friend bool operator==(const StageProgram&, const StageProgram&) = default;
};

}  // namespace stringline
