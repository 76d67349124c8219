// The names of model_keys.def, and the advice for a name that a file does not take.
//
// Beside the map `model`, run files and cost files share `data: {microbatch: …}`, sequences of a
// microbatch; `mesh: {pipeline: …, data: …, expert: …, shard: …}`, ranks of a pipeline and copies
// of it; `sharding`, the state shared by copies (sharding.h); `bucket`, bytes of gradients
// reduced at once; and `precision`, bf16 or fp32. Cost files know more: narrow precisions, ranks
// that share sequences (`mesh: {context: …}`), Megatron's layout of a mesh, layers that recompute.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace stringline {

namespace model_key {
#define MODEL_KEY(constant, name, kinds, least, meaning) inline constexpr char constant[] = name;
#include "schedlang/costs/model_keys.def"
inline constexpr char kSkips[] = "skips";                   // in run files, of a gpt
inline constexpr char kEncoderLayers[] = "encoder_layers";  // in run files, of an encoder_decoder
inline constexpr char kSource[] = "source";                 // the same
inline constexpr char kQRank[] = "q_rank";                  // in cost files, as are the next five
inline constexpr char kKvRank[] = "kv_rank";
inline constexpr char kRopeDim[] = "rope_dim";
inline constexpr char kValueDim[] = "value_dim";
inline constexpr char kWindow[] = "window";
inline constexpr char kPredicted[] = "predicted";
inline constexpr char kMicrobatch[] = "microbatch";  // in `data`
inline constexpr char kPipeline[] = "pipeline";      // in `mesh`, as are the next six
inline constexpr char kData[] = "data";
inline constexpr char kExpert[] = "expert";
inline constexpr char kTensor[] = "tensor";        // in cost files: ranks that share every layer
inline constexpr char kShard[] = "shard";          // over how many of `data` state is shared out,
inline constexpr char kReplicate[] = "replicate";  // or the number of replicas of each share
inline constexpr char kLayout[] = "layout";        // in cost files: own or megatron
inline constexpr char kScoresOf[] = "attention_scores";       // in cost files: fused or written
inline constexpr char kLayerRecompute[] = "layer_recompute";  // in cost files
inline constexpr char kLayerOffload[] = "layer_offload";      // in cost files
inline constexpr char kPrecision[] = "precision";
inline constexpr char kSharding[] = "sharding";
inline constexpr char kBucket[] = "bucket";
}  // namespace model_key

// The kinds of a model, as bits.
enum ModelKind : uint8_t {
  kGptModel = 1,
  kLlamaModel = 2,
  kMoeModel = 4,
  kDecoderModel = kLlamaModel | kMoeModel,
  kAnyModel = kGptModel | kDecoderModel,
};
inline constexpr struct {
  const char* name;
  ModelKind kind;
} kModelKinds[] = {{"gpt", kGptModel}, {"llama", kLlamaModel}, {"moe", kMoeModel}};

struct ModelKey {
  const char* name;
  uint8_t kinds;
  int64_t least;  // -1: changes no cost
  const char* meaning;
};
absl::Span<const ModelKey> ModelKeys();

// "is called 'model.hidden' now", "is for run files: …": about a key, "model.ffn", that the file at
// hand does not take but that was a key once, or is a key of another kind of file or model. "" for
// others.
std::string WhyNoKey(absl::string_view key);

}  // namespace stringline
