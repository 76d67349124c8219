// An encoder and a decoder with layers of GPT-2's kind (gpt.h). The encoder reads the first
// `source` tokens of a sequence, each of which sees all of them; the decoder continues with the
// others, as prefix language modelling does (Raffel et al. 2020, "T5"), and the loss is over these.
//
//   encoder   x  = encoder.embedding[token] + encoder.position
//             x += projection(cross_attention(q(n), kv(n))), n = norm1(x)     } per layer
//             x += down(gelu(up(norm2(x))))                                    }
//             e  = encoder.norm(x), behind the last layer
//   decoder   x  = embedding[token] + position
//             x += projection(attention(qkv(norm1(x))))                        }
//             x += cross.projection(cross_attention(cross.q(norm3(x)), cross.kv(e)))  } per layer
//             x += down(gelu(up(norm2(x))))                                    }
//   loss = sum cross_entropy(head(norm(x)), target)
//
// Layers are counted through, the encoder's first; parameters of its layers are
// `encoder.layers.0.…` on, of the decoder's `layers.0.…`. The encoder's result is read by each
// layer of the decoder.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/models/stage_builder.h"
#include "stages/stage_program.h"

namespace stringline {

struct EncoderDecoderShape {
  int layers = 0;          // of both
  int encoder_layers = 0;  // at least 1, and fewer than all
  int width = 0;
  int heads = 0;
  int context = 0;  // tokens per sequence, both parts of it
  int source = 0;   // of them those that the encoder reads
  int vocabulary = 256;
  int microbatch = 0;                  // sequences per microbatch
  static constexpr bool tied = false;  // the head has a weight of its own

  int64_t tokens() const { return int64_t{microbatch} * context; }  // per microbatch
  int targets() const { return context - source; }                  // per sequence
  friend bool operator==(const EncoderDecoderShape&, const EncoderDecoderShape&) = default;
};

// InvalidArgument for impossible numbers, as of a GptShape (gpt.h), and where one of the two has no
// layer or no token.
absl::Status CheckShape(const EncoderDecoderShape& shape);

// Number of the model's parameters.
int64_t CountParams(const EncoderDecoderShape& shape);

// `layer` is the mean.
ModelWork WorkOf(const EncoderDecoderShape& shape);

// The contract of BuildGptStages. The stage with the decoder's first layer reads tokens, too.
absl::StatusOr<std::vector<StageProgram>> BuildEncoderDecoderStages(
    const EncoderDecoderShape& shape, const std::vector<int>& layers_per_stage,
    const BuildOptions& options = {});

}  // namespace stringline
