// A model of any family, as whoever cuts, counts and runs models sees it.
//
// A family is an alternative of AnyShape: a shape struct with CheckShape, CountParams, WorkOf and
// a function that builds its stages, in a file of its own. It has the members layers, width,
// context, vocabulary, microbatch, tied and tokens().
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/models/decoder.h"
#include "stages/models/gpt.h"
#include "stages/models/raised.h"
#include "stages/stage_program.h"

namespace stringline {

struct AnyShape {
  std::variant<GptShape, DecoderShape, RaisedShape> family;
  // Of activations and of the weights of products: F32 or BF16 (BuildOptions::dtype).
  DType dtype = DType::kF32;

  AnyShape() = default;
  AnyShape(const GptShape& shape) : family(shape) {}      // NOLINT: every shape is a model
  AnyShape(const DecoderShape& shape) : family(shape) {}  // NOLINT
  AnyShape(const RaisedShape& shape) : family(shape) {}   // NOLINT

  int layers() const;
  int width() const;
  int context() const;  // tokens per sequence
  int vocabulary() const;
  int microbatch() const;  // sequences per microbatch
  int64_t tokens() const;  // of one microbatch

  // The same model with another number of layers; of a raised one that is no model.
  AnyShape WithLayers(int layers) const;
  AnyShape WithMicrobatch(int microbatch) const;
};

// "gpt", "llama", "moe": as `model.kind` of a run file names it; "export" for a raised one.
const char* KindOf(const AnyShape& shape);

// As each family's own.
absl::Status CheckShape(const AnyShape& shape);
int64_t CountParams(const AnyShape& shape);
ModelWork WorkOf(const AnyShape& shape);

// One program per element of `layers_per_stage` (layers.h); {shape.layers()} gives the whole model
// as one stage. A stage's input is tokens I32 (microbatch, context) for the first one, otherwise
// shape.dtype (microbatch, context, width); the target is I32 (microbatch, context). It is the
// shape's dtype that counts, not that of `options`.
absl::StatusOr<std::vector<StageProgram>> BuildModelStages(const AnyShape& shape,
                                                           const std::vector<int>& layers_per_stage,
                                                           const BuildOptions& options = {});

}  // namespace stringline
