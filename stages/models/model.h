// A model of any family, for code that cuts, counts and runs models.
//
// A family is an alternative of AnyShape: a shape struct with CheckShape, CountParams, WorkOf and a
// function that builds its stages, in its own file. It has the members layers, width, context,
// vocabulary, microbatch, tied and tokens().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/models/decoder.h"
#include "stages/models/encoder_decoder.h"
#include "stages/models/gpt.h"
#include "stages/models/raised.h"
#include "stages/stage_program.h"

namespace stringline {

// Parts of a folder that no training changes: they are saved as they came.
struct GivenFolder {
  std::map<std::string, std::string> files;  // texts by name: "config.json"
  // The table of positions, where it has more rows than sequences have tokens; else empty.
  std::vector<float> positions;
};

// The data that a model reads for a sequence.
struct SampleShape {
  std::vector<int64_t> sizes;  // of the input: tokens, or numbers
  bool numbers = false;        // F32, which a run takes as I32 with the same bits
  int64_t token_kinds = 0;     // different tokens; 0 for numbers
  int64_t targets = 1;
  int64_t classes = 0;  // different targets
};

struct AnyShape {
  std::variant<GptShape, DecoderShape, EncoderDecoderShape, RaisedShape> family;
  // The type of activations and of the weights of products: F32 or BF16 (BuildOptions::dtype).
  DType dtype = DType::kF32;
  std::shared_ptr<const GivenFolder> given;  // the folder from which the model came; null: none

  AnyShape() = default;
  AnyShape(const GptShape& shape) : family(shape) {}             // NOLINT: every shape is a model
  AnyShape(const DecoderShape& shape) : family(shape) {}         // NOLINT
  AnyShape(const EncoderDecoderShape& shape) : family(shape) {}  // NOLINT
  AnyShape(const RaisedShape& shape) : family(shape) {}          // NOLINT

  int layers() const;
  int width() const;
  int context() const;  // tokens per sequence
  int source() const;   // tokens at the beginning of a sequence that have no target: an encoder's,
                        // or of an exported model with fewer targets than tokens
  int vocabulary() const;
  int microbatch() const;  // sequences per microbatch
  int64_t tokens() const;  // per microbatch
  SampleShape sample() const;

  // The text of a file of the folder from which the model came, or null.
  const std::string* GivenFile(const std::string& name) const;

  // The same model with another number of layers; of a raised one that is no model.
  AnyShape WithLayers(int layers) const;
  AnyShape WithMicrobatch(int microbatch) const;
};

// "gpt", "llama", "moe", "encoder_decoder": `model.kind` of a run file; "export" for a raised
// model.
const char* KindOf(const AnyShape& shape);

// Dispatch to the function of the family.
absl::Status CheckShape(const AnyShape& shape);
int64_t CountParams(const AnyShape& shape);
ModelWork WorkOf(const AnyShape& shape);

// A program per element of `layers_per_stage` (layers.h); {shape.layers()} gives the whole model as
// one stage. The first stage's input is tokens I32 (microbatch, context), other stages' shape.dtype
// (microbatch, context, width); the target is I32 (microbatch, context). The shape's dtype counts,
// not that of `options`.
absl::StatusOr<std::vector<StageProgram>> BuildModelStages(const AnyShape& shape,
                                                           const std::vector<int>& layers_per_stage,
                                                           const BuildOptions& options = {});

}  // namespace stringline
