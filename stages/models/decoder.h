// Llama and its dense relatives (Mistral, Qwen2, Qwen3): rotary positions; pre-norm blocks of
// grouped-query attention and a SwiGLU MLP, each around a residual, with RMS norms and without
// biases; a final norm and a head; the loss as GPT's.
//
//   x   = embedding[token]
//   x  += projection(attention(rotary(qkv(norm(x)))))            } per layer
//   x  += down(silu(gate) up), gate and up of gate_up(norm(x))   }
//   loss = sum cross_entropy(head(norm(x)), target)
//
// Qwen2 adds a bias to qkv, Qwen3 a norm of every head of queries and keys before the rotation.
// Weights are (out, in): qkv holds the heads of queries, then of keys, then of values; gate_up
// holds gate, then up. First values are normal with `init_stddev`, those of the two products that
// end a residual branch divided by sqrt(2 layers); norms are ones, biases zeros.
//
// A shape with experts (`moe`) has a mixture of them in place of the MLP: moe.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/models/moe_shape.h"
#include "stages/models/stage_builder.h"
#include "stages/stage_program.h"

namespace stringline {

struct DecoderShape {
  int layers = 0;
  int width = 0;
  int heads = 0;    // for queries
  int context = 0;  // tokens per sequence
  int vocabulary = 256;
  int microbatch = 0;  // sequences per microbatch
  int kv_heads = 0;    // for keys, and for values; divides heads
  int head_dim = 0;    // channels of a head, even; heads * head_dim need not be the width
  int hidden = 0;      // channels of gate, and of up; 0 if no layer is dense
  double rope_theta = 1e4;
  double norm_epsilon = 1e-5;
  double init_stddev = 0.02;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool tied = false;  // the head's weight is the embedding's (Param::tied_to)
  MoeShape moe;

  int64_t tokens() const { return int64_t{microbatch} * context; }        // per microbatch
  int64_t packed_heads() const { return heads + 2 * int64_t{kv_heads}; }  // in a row of qkv
  friend bool operator==(const DecoderShape&, const DecoderShape&) = default;
};

// InvalidArgument for impossible numbers: a size below 1 or above 2^20, heads that do not share out
// the keys, an odd head_dim, a theta below 1, a microbatch whose activations would pass 2^31
// elements; more choices than experts, groups that do not divide the experts, and the like.
absl::Status CheckShape(const DecoderShape& shape);

// Number of the model's parameters; tied ones count once.
int64_t CountParams(const DecoderShape& shape);

// `layer` is the mean over dense layers and layers with experts.
ModelWork WorkOf(const DecoderShape& shape);

// Builds a stage's forward graph.
class DecoderStage : public LayeredStage {
 public:
  // `shape` outlives the object; of a slice, its context is the slice's.
  DecoderStage(const DecoderShape& shape, const BuildOptions& options, const SlicePlace& slice)
      : LayeredStage(shape.microbatch, shape.context, shape.width, shape.layers, options, slice),
        shape_(shape) {}

 protected:
  ValueId Embed() override;
  ValueId Layer(ValueId x, int layer) override;  // AttentionHalf, then MlpHalf
  void Loss(ValueId x) override;

  // Each takes (microbatch, context, width) and gives the same, residual and norm included. The
  // names of a layer's parameters begin with `name`: "layers.3.".
  ValueId AttentionHalf(ValueId x, const std::string& name);
  virtual ValueId MlpHalf(ValueId x, int layer, const std::string& name);

  ValueId Norm(ValueId x, const std::string& name);
  // x w', w (out, in) of x's type under `name`.weight.
  ValueId Linear(ValueId x, const std::string& name, int64_t out);
  // silu(gate) up of x's last dimension, from `name`.gate_up.weight (2 hidden, width), and back to
  // the width with `name`.down.weight, added to the residual.
  ValueId Mlp(ValueId x, const std::string& name, int64_t hidden, ValueId residual,
              const std::string& result);
  // The product at the end of a residual branch, and the sum with the residual.
  ValueId EndBranch(ValueId x, const std::string& name, ValueId residual,
                    const std::string& result);
  // The stddev of a weight at the end of a residual branch.
  float EndStddev() const;

  const DecoderShape& shape_;
};

// The contract of BuildGptStages.
absl::StatusOr<std::vector<StageProgram>> BuildDecoderStages(
    const DecoderShape& shape, const std::vector<int>& layers_per_stage,
    const BuildOptions& options = {});

}  // namespace stringline
