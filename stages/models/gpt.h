// GPT-2: token and learned position embedding; pre-norm blocks of causal attention and a GELU MLP
// four times as wide, each around a residual; a final norm and a head without bias; the loss is the
// cross-entropy in nats, summed over the microbatch's tokens.
//
//   x   = embedding[token] + position
//   x  += projection(attention(qkv(norm(x))))     } per layer
//   x  += down(gelu(up(norm(x))))                 }
//   loss = sum cross_entropy(head(norm(x)), target)
//
// With U-shaped skips the result of each layer of the first half is read by a layer of the second
// one as well, that of the first layer by the last: x += skip(that result), before the layer's
// norm. The skip is a product without a bias; of an odd number of layers the middle one has none.
//
// Weights are (out, in). First values as in GPT-2: normal, 0.02, those of the products that end a
// residual branch, and of skips, 0.02 / sqrt(2 layers).
#pragma once

#include <cstdint>
#include <string>
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
  bool skips = false;  // U-shaped

  // The layer whose result a layer of the second half reads; -1: none.
  int SkipInto(int layer) const {
    return skips && layers - 1 - layer < layer ? layers - 1 - layer : -1;
  }
  int64_t tokens() const { return int64_t{microbatch} * context; }  // per microbatch
  friend bool operator==(const GptShape&, const GptShape&) = default;
};

// Builds a stage's forward graph, and what other models have of GPT-2's layers.
class GptStage : public LayeredStage {
 public:
  GptStage(const GptShape& shape, const BuildOptions& options, const SlicePlace& slice)
      : LayeredStage(shape.microbatch, shape.context / slice.of, shape.width, shape.layers, options,
                     slice),
        shape_(shape) {}

 protected:
  ValueId Embed() override;
  ValueId Layer(ValueId x, int layer) override;
  void Loss(ValueId x) override;

  // Tokens from `first` on, of so many positions, with tables whose names begin with `name`.
  ValueId EmbedAt(int64_t first, int64_t positions, const std::string& name);
  // norm2 and the MLP, with the residual.
  ValueId MlpHalf(ValueId x, const std::string& name);
  ValueId Norm(ValueId x, const std::string& name);
  ValueId Linear(ValueId x, const std::string& name, int64_t out);
  // The weight at the end of a residual branch.
  ValueId EndWeight(ValueId x, const std::string& name);
  // The product at the end of a residual branch, and the sum with the residual.
  ValueId EndBranch(ValueId x, const std::string& name, ValueId residual,
                    const std::string& result);

  const GptShape shape_;
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
