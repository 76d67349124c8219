// GPT-2: token and learned position embedding; pre-norm blocks of causal attention and a GELU MLP
// four times as wide, each around a residual; a final norm and a head without bias; the loss is the
// cross-entropy in nats, summed over the microbatch's tokens.
//
//   x   = embedding[token] + position
//   x  += projection(attention(qkv(norm(x))))     } per layer
//   x  += down(gelu(up(norm(x))))                 }
//   loss = sum cross_entropy(head(norm(x)), target)
//
// Weights are (out, in). First values as in GPT-2: normal, 0.02, those of the two products that end
// a residual branch 0.02 / sqrt(2 layers).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/models/stage_builder.h"
#include "stages/stage_program.h"

namespace stringline {

struct GptShape {
  int layers = 0;
  int width = 0;
  int heads = 0;
  int context = 0;  // tokens per sequence
  int vocabulary = 256;
  int microbatch = 0;  // sequences per microbatch
  bool tied = false;   // the head's weight is the embedding's (Param::tied_to)

  int64_t tokens() const { return int64_t{microbatch} * context; }  // per microbatch
  friend bool operator==(const GptShape&, const GptShape&) = default;
};

// InvalidArgument for impossible numbers: a size below 1 or above 2^20, a width that the heads do
// not divide, a microbatch whose activations would pass 2^31 elements.
absl::Status CheckShape(const GptShape& shape);

// Number of the model's parameters; tied ones count once.
int64_t CountParams(const GptShape& shape);

ModelWork WorkOf(const GptShape& shape);

// A program per element of `layers_per_stage` (layers.h); {shape.layers} gives the whole model as
// one stage. The first stage's input is tokens I32 (microbatch, context), other stages'
// options.dtype (microbatch, context, width); the target is I32 (microbatch, context).
absl::StatusOr<std::vector<StageProgram>> BuildGptStages(const GptShape& shape,
                                                         const std::vector<int>& layers_per_stage,
                                                         const BuildOptions& options = {});

}  // namespace stringline
