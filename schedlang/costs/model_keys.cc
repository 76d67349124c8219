#include "schedlang/costs/model_keys.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

constexpr ModelKey kKeys[] = {
#define MODEL_KEY(constant, name, kinds, least, meaning) {name, kinds, least, meaning},
#include "schedlang/costs/model_keys.def"
};

constexpr struct {
  const char* key;
  const char* why;
} kNoKeys[] = {
    {"model.ffn", "is called 'model.hidden', and what was 'hidden' in cost files 'model.width'"},
    {"model.sequence", "is called 'model.context'"},
    {"model.active_experts", "is called 'model.top_k', of 'kind: moe'"},
    {"model.microbatch", "is called 'data.microbatch'"},
    {"model.data_parallel", "is called 'mesh.data', with 'sharding: optimizer'"},
    {"model.tensor_parallel", "is called 'mesh.tensor'"},
    {"model.bytes", "is said by 'precision', bf16 or fp32"},
    {"model.folder", "is for run files; a cost file says the sizes itself"},
    {"model.split", "is for run files; costs follow the schedule's split"},
    {"model.skips",
     "is for 'kind: gpt' in run files; the formula of costs has no skips, and `--costs` may say "
     "the times and messages of a schedule with edges"},
    {"model.encoder_layers",
     "is for 'kind: encoder_decoder' in run files; the formula of costs knows no encoders"},
    {"model.source",
     "is for 'kind: encoder_decoder' in run files; the formula of costs knows no encoders"},
    {"model.q_rank", "is for cost files; a run has no latent attention"},
    {"model.kv_rank", "is for cost files; a run has no latent attention"},
    {"model.rope_dim", "is for cost files; a run has no latent attention"},
    {"model.value_dim", "is for cost files; a run has no latent attention"},
    {"model.window", "is for cost files; a run's attention has no window"},
    {"model.predicted", "is for cost files; a run predicts the next token alone"},
    {"mesh.context", "is for cost files; a run does not share a sequence among ranks"},
    {"mesh.layout", "is for cost files; a run has its own layout"},
    {"attention_scores", "is for cost files; a run's attention is fused"},
    {"layer_recompute", "is for cost files; a run recomputes whole stages, as its schedule says"},
    {"layer_offload", "is for cost files; a run copies what its schedule says to the host"},
    {"mesh.tensor", "is for cost files; a run does not share a layer among ranks"},
    {"optimizer", "is said by 'sharding': none, optimizer, gradients or parameters"},
};

}  // namespace

absl::Span<const ModelKey> ModelKeys() { return kKeys; }

std::string WhyNoKey(absl::string_view key) {
  for (const auto& row : kNoKeys) {
    if (key == row.key) return row.why;
  }
  for (const ModelKey& row : kKeys) {
    if (row.kinds == kAnyModel || key != absl::StrCat("model.", row.name)) continue;
    std::vector<std::string> kinds;
    for (const auto& kind : kModelKinds) {
      if (row.kinds & kind.kind) kinds.push_back(kind.name);
    }
    return absl::StrCat("is for 'kind: ", absl::StrJoin(kinds, "' or 'kind: "), "'",
                        row.name == absl::string_view(model_key::kHidden)
                            ? "; the channels of an activation are 'model.width'"
                            : "");
  }
  return "";
}

}  // namespace stringline
