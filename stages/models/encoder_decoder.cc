#include "stages/models/encoder_decoder.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "stages/models/gpt.h"

namespace stringline {
namespace {

// A decoder alone with the sizes of both.
GptShape AsGpt(const EncoderDecoderShape& shape) {
  return {.layers = shape.layers,
          .width = shape.width,
          .heads = shape.heads,
          .context = shape.context,
          .vocabulary = shape.vocabulary,
          .microbatch = shape.microbatch};
}

class EncoderDecoderStage : public GptStage {
 public:
  EncoderDecoderStage(const EncoderDecoderShape& shape, const BuildOptions& options)
      : GptStage(AsGpt(shape), options, {}), sizes_(shape) {}

  void Part(int part) override {
    const int encoded = sizes_.encoder_layers;
    SetPositions(part <= encoded ? sizes_.source : sizes_.targets());
    if (part == 0) {
      Carry(0, EmbedAt(0, sizes_.source, "encoder."));
    } else if (part <= encoded) {
      const ValueId x = EncoderLayer(Carried(part - 1), part - 1);
      Carry(part, part < encoded ? x : Norm(x, "encoder.norm"));
    } else if (part <= sizes_.layers) {
      const bool begins = part == encoded + 1;
      const ValueId x = begins ? EmbedAt(sizes_.source, sizes_.targets(), "") : Carried(part - 1);
      Carry(part, DecoderLayer(x, Carried(encoded), part - encoded - 1));
    } else {
      TargetsFrom(sizes_.source);
      Loss(Carried(sizes_.layers));
    }
  }

 private:
  ValueId EncoderLayer(ValueId x, int layer) {
    const std::string name = absl::StrCat("encoder.layers.", layer, ".");
    const ValueId normed = Norm(x, name + "norm1");
    return MlpHalf(Attend(x, normed, normed, name + "attention", name + "middle"), name);
  }

  ValueId DecoderLayer(ValueId x, ValueId encoded, int layer) {
    const std::string name = absl::StrCat("layers.", layer, ".");
    const double heads = sizes_.heads;
    ValueId y = Norm(x, name + "norm1");
    y = Linear(y, name + "attention.qkv", 3 * int64_t{sizes_.width});
    y = Attention(y, heads, heads, name + "attention");
    x = EndBranch(y, name + "attention.projection", x, name + "attended");
    y = Norm(x, name + "norm3");
    return MlpHalf(Attend(x, y, encoded, name + "cross", name + "middle"), name);
  }

  // x plus the attention of the rows of `from` to all rows of `to`.
  ValueId Attend(ValueId x, ValueId from, ValueId to, const std::string& name,
                 const std::string& result) {
    const double heads = sizes_.heads;
    const ValueId queries = Linear(from, name + ".q", sizes_.width);
    const ValueId keys = Linear(to, name + ".kv", 2 * int64_t{sizes_.width});
    const ValueId y =
        builder_.AppendAll(Op::kCrossAttention, {queries, keys}, {heads, heads}, name)[0];
    return EndBranch(y, name + ".projection", x, result);
  }

  const EncoderDecoderShape sizes_;
};

}  // namespace

absl::Status CheckShape(const EncoderDecoderShape& shape) {
  SL_RETURN_IF_ERROR(CheckShape(AsGpt(shape)));
  if (shape.encoder_layers < 1 || shape.encoder_layers >= shape.layers) {
    return absl::InvalidArgumentError(absl::StrCat("a model with ", shape.encoder_layers, " of ",
                                                   shape.layers,
                                                   " layers in its encoder: each half needs one"));
  }
  if (shape.source < 1 || shape.source >= shape.context) {
    return absl::InvalidArgumentError(absl::StrCat("an encoder that reads ", shape.source,
                                                   " of a sequence's ", shape.context,
                                                   " tokens: each half needs one"));
  }
  return absl::OkStatus();
}

int64_t CountParams(const EncoderDecoderShape& shape) {
  const int64_t width = shape.width, decoded = shape.layers - shape.encoder_layers;
  const int64_t block = 12 * width * width + 13 * width;  // of GPT-2, however attention is packed
  const int64_t cross = 4 * width * width + 6 * width;    // with its norm
  const int64_t tables = 3 * int64_t{shape.vocabulary} + shape.context;
  return shape.layers * block + decoded * cross + (tables + 4) * width;
}

// As of GPT-2, with the tokens of each half; attention to all positions takes twice as long as to
// the half of them that is before a token.
ModelWork WorkOf(const EncoderDecoderShape& shape) {
  const double width = shape.width, sequences = shape.microbatch;
  const double read = sequences * shape.source, written = sequences * shape.targets();
  const double decoded = shape.layers - shape.encoder_layers;
  const double encoder = read * (24 * width * width + 4 * shape.source * width);
  const double decoder =
      written * (28 * width * width + 4 * shape.targets() * width + 4 * shape.source * width) +
      read * 4 * width * width;
  ModelWork work;
  work.embedding = read * width;
  work.layer = (shape.encoder_layers * encoder + decoded * decoder) / shape.layers;
  work.head = written * 2 * width * shape.vocabulary;
  return work;
}

absl::StatusOr<std::vector<StageProgram>> BuildEncoderDecoderStages(
    const EncoderDecoderShape& shape, const std::vector<int>& layers_per_stage,
    const BuildOptions& options) {
  SL_RETURN_IF_ERROR(CheckShape(shape));
  SL_RETURN_IF_ERROR(CheckNotShared(options.expert_ranks));
  if (options.slices > 1 || options.packed) {
    return absl::InvalidArgumentError(
        absl::StrCat("an encoder and a decoder read whole sequences, and ",
                     options.packed ? "data.packed has documents one behind the other"
                                    : "the schedule cuts them into slices"));
  }
  std::vector<PartValue> values = ValuesInARow(shape.layers);
  PartValue& encoded = values[shape.encoder_layers];
  encoded.read_in.clear();
  for (int part = shape.encoder_layers + 1; part <= shape.layers; ++part) {
    encoded.read_in.push_back(part);
  }
  return BuildPrograms(shape.layers, layers_per_stage, options, values, [&](const SlicePlace&) {
    return std::make_unique<EncoderDecoderStage>(shape, options);
  });
}

}  // namespace stringline
