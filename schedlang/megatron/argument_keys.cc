// Two tables: keys that are honoured, with their other names, and keys that are refused, with the
// reason. A key of neither is refused, too, if a word of its name is one of pipelines.
#include "schedlang/megatron/argument_keys.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "schedlang/base/diagnostics.h"

namespace stringline {
namespace {

struct KnownKey {
  const char* name;
  const char* of;        // the name under which its value is kept
  bool negated = false;  // the opposite of its value is kept
};
constexpr KnownKey kHonoured[] = {
    {"pipeline_model_parallel_size", "pipeline_model_parallel_size"},
    {"virtual_pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size"},
    {"num_layers_per_virtual_pipeline_stage", "num_layers_per_virtual_pipeline_stage"},
    {"num_virtual_stages_per_pipeline_rank", "num_virtual_stages_per_pipeline_rank"},
    {"pipeline_model_parallel_layout", "pipeline_model_parallel_layout"},
    {"decoder_first_pipeline_num_layers", "decoder_first_pipeline_num_layers"},
    {"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
    {"decoder_last_pipeline_num_layers", "decoder_last_pipeline_num_layers"},
    {"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
    {"account_for_embedding_in_pipeline_split", "account_for_embedding_in_pipeline_split"},
    {"account_for_loss_in_pipeline_split", "account_for_loss_in_pipeline_split"},
    {"num_layers", "num_layers"},
    {"mtp_num_layers", "mtp_num_layers"},
    {"microbatch_group_size_per_vp_stage", "microbatch_group_size_per_vp_stage"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "microbatch_group_size_per_vp_stage"},
    {"num_microbatches", "num_microbatches"},
    {"global_batch_size", "global_batch_size"},
    {"micro_batch_size", "micro_batch_size"},
    {"world_size", "world_size"},
    {"data_parallel_size", "data_parallel_size"},
    {"tensor_model_parallel_size", "tensor_model_parallel_size"},
    {"context_parallel_size", "context_parallel_size"},
    {"overlap_p2p_comm", "overlap_p2p_comm"},
    {"overlap_p2p_communication", "overlap_p2p_comm"},
    {"no_overlap_p2p_communication", "overlap_p2p_comm", true},
    {"overlap_p2p_comm_warmup_flush", "overlap_p2p_comm_warmup_flush"},
    {"overlap_p2p_communication_warmup_flush", "overlap_p2p_comm_warmup_flush"},
    {"batch_p2p_comm", "batch_p2p_comm"},
    {"batch_p2p_communication", "batch_p2p_comm"},
    {"overlap_moe_expert_parallel_comm", "overlap_moe_expert_parallel_comm"},
    {"delay_wgrad_compute", "delay_wgrad_compute"},
    {"ep_overlap_early_attn_memory_release", "ep_overlap_early_attn_memory_release"},
    {"recompute_granularity", "recompute_granularity"},
    {"recompute_method", "recompute_method"},
    {"recompute_num_layers", "recompute_num_layers"},
};

struct RefusedKey {
  const char* name;
  const char* why;
};
constexpr RefusedKey kRefused[] = {
    {"variable_seq_lengths", "ranks then exchange shapes before every message, and wait for them"},
    {"mtp_standalone", "ranks then exchange shapes before every message, and wait for them"},
    {"use_ring_exchange_p2p", "its exchange is of a torch of Megatron's own"},
    {"defer_embedding_wgrad_compute",
     "it moves a part of the last stage's backwards to the end of the step"},
    {"overlap_dispatch_backward_with_experts_wgrad",
     "it moves the experts' weight gradients behind the next layer's backward"},
    {"hybrid_context_parallel", "the number of microbatches then follows from the data"},
    {"dynamic_context_parallel", "the number of microbatches then follows from the data"},
    {"sequence_packing_scheduler", "the number of microbatches then follows from the data"},
    {"perform_rl_step", "the number of microbatches then follows from what was generated"},
    {"rampup_batch_size", "the number of microbatches then changes from step to step"},
    {"step_batch_size_schedule", "the number of microbatches then changes from step to step"},
    {"num_microbatches_with_partial_activation_checkpoints",
     "some microbatches then recompute more than others"},
    {"hybrid_layer_pattern", "its layers are of several kinds, and it has bars of its own"},
    {"hybrid_override_pattern", "its layers are of several kinds, and it has bars of its own"},
    {"encoder_num_layers", "models with an encoder have another order"},
    {"decoder_num_layers", "models with an encoder have another order"},
    {"encoder_pipeline_model_parallel_size", "models with an encoder have another order"},
    {"pipeline_model_parallel_split_rank", "models with an encoder have another order"},
    {"tensor_parallel_num_weight_shards", "it divides the ranks otherwise"},
    {"pipeline_model_parallel_comm_backend", "the messages of UCC have no queues that are known"},
};

// Keys with a word of pipelines that say nothing of the order.
constexpr const char* kUnconcerned[] = {
    "batch_p2p_sync",
    "deallocate_pipeline_outputs",
    "pipeline_dtype",
    "recompute_modules",
    "recompute_activations",
    "wgrad_deferral_limit",
    "gradient_accumulation_fusion",
    "rotary_interleaved",
};
constexpr const char* kUnconcernedBeginnings[] = {"inference_", "rl_", "eval_", "grpo_", "log_"};
constexpr const char* kWordsOfPipelines[] = {"pipeline",    "virtual",  "vpp",   "microbatch",
                                             "micro_batch", "p2p",      "wgrad", "interleav",
                                             "1f1b",        "recompute"};

// "pipeline_model_parallel_size" for "--pipeline-model-parallel-size".
std::string NameOfKey(absl::string_view written) {
  absl::ConsumePrefix(&written, "--");
  return absl::StrReplaceAll(written, {{"-", "_"}});
}

bool IsNull(const std::string& text) { return text.empty() || text == "null" || text == "~"; }
bool IsFalse(const std::string& text) {
  return text == "false" || text == "False" || text == "0" || text == "no";
}

bool IsUnconcerned(const std::string& name) {
  for (const char* const known : kUnconcerned) {
    if (name == known) return true;
  }
  for (const char* const beginning : kUnconcernedBeginnings) {
    if (absl::StartsWith(name, beginning)) return true;
  }
  return std::none_of(std::begin(kWordsOfPipelines), std::end(kWordsOfPipelines),
                      [&](const char* word) { return absl::StrContains(name, word); });
}

absl::Status Bad(const std::string& place, const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(place, " ", text));
}

}  // namespace

absl::Status ArgumentValues::Take(const std::string& written, const std::string& text,
                                  const std::string& place, bool given) {
  const std::string name = NameOfKey(written);
  const std::string at = absl::StrCat(place, ": '", written, "'");
  for (const KnownKey& key : kHonoured) {
    if (name != key.name) continue;
    if (IsNull(text)) return absl::OkStatus();
    const std::string kept = !key.negated ? text : IsFalse(text) ? "true" : "false";
    const auto [there, is_new] = values_.emplace(key.of, Value{kept, at, given});
    if (is_new || (there->second.given && !given)) return absl::OkStatus();
    return Bad(at, absl::StrCat("is given a second time; before it stands ", there->second.place));
  }
  for (const RefusedKey& key : kRefused) {
    if (name != key.name || IsNull(text) || IsFalse(text)) continue;
    if (name == "pipeline_model_parallel_comm_backend" && text == "nccl") continue;
    return Bad(at, absl::StrCat("is not imported: ", key.why));
  }
  const bool refusable = std::any_of(std::begin(kRefused), std::end(kRefused),
                                     [&](const RefusedKey& key) { return name == key.name; });
  if (refusable || IsUnconcerned(name)) {
    ++unconcerned_;
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const KnownKey& key : kHonoured) names.emplace_back(key.name);
  const std::string close = ClosestName(name, names);
  return Bad(at, absl::StrCat("is not known, and its name is one that may shape the order",
                              close.empty() ? "" : absl::StrCat("; did you mean '", close, "'?")));
}

std::string ArgumentValues::PlaceOf(const std::string& key) const {
  return Has(key) ? Of(key).place : absl::StrCat(file_, ": '", key, "'");
}

absl::StatusOr<int> ArgumentValues::Number(const std::string& key, int usual, int least) const {
  constexpr int kMost = 1 << 20;
  if (!Has(key)) return usual;
  int number = 0;
  if (absl::SimpleAtoi(Of(key).text, &number) && number >= least && number <= kMost) return number;
  return Bad(PlaceOf(key),
             absl::StrCat("is '", Of(key).text, "', which is no number in ", least, " .. ", kMost));
}

absl::StatusOr<bool> ArgumentValues::Truth(const std::string& key, bool usual) const {
  if (!Has(key)) return usual;
  const std::string text = absl::AsciiStrToLower(Of(key).text);
  if (text == "true" || text == "1" || text == "yes") return true;
  if (IsFalse(text)) return false;
  return Bad(PlaceOf(key),
             absl::StrCat("is '", Of(key).text, "', which is neither true nor false"));
}

}  // namespace stringline
