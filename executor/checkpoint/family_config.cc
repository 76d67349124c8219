// A table of families, each with functions that read and write its config. They read values through
// ConfigKeys, which notes every read key: a key that was not read is an error in the end.
#include "executor/checkpoint/family_config.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/config_keys.h"
#include "executor/checkpoint/decoder_config.h"
#include "executor/checkpoint/json_tree.h"
#include "executor/checkpoint/tensor_header.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Names, versions, tokens of a tokeniser, and keys of text generation and of other heads.
constexpr const char* kMeaningless[] = {"_attn_implementation",
                                        "_name_or_path",
                                        "architectures",
                                        "attn_implementation",
                                        "bad_words_ids",
                                        "begin_suppress_tokens",
                                        "bos_token_id",
                                        "chunk_size_feed_forward",
                                        "decoder_start_token_id",
                                        "diversity_penalty",
                                        "do_sample",
                                        "dtype",
                                        "early_stopping",
                                        "encoder_no_repeat_ngram_size",
                                        "eos_token_id",
                                        "exponential_decay_length_penalty",
                                        "finetuning_task",
                                        "forced_bos_token_id",
                                        "forced_eos_token_id",
                                        "id2label",
                                        "label2id",
                                        "length_penalty",
                                        "max_length",
                                        "max_window_layers",
                                        "min_length",
                                        "model_type",
                                        "no_repeat_ngram_size",
                                        "num_beam_groups",
                                        "num_beams",
                                        "num_return_sequences",
                                        "output_attentions",
                                        "output_hidden_states",
                                        "output_scores",
                                        "prefix",
                                        "pretraining_tp",
                                        "problem_type",
                                        "remove_invalid_values",
                                        "repetition_penalty",
                                        "return_dict",
                                        "return_dict_in_generate",
                                        "sep_token_id",
                                        "suppress_tokens",
                                        "task_specific_params",
                                        "temperature",
                                        "tf_legacy_loss",
                                        "tokenizer_class",
                                        "top_k",
                                        "top_p",
                                        "torch_dtype",
                                        "torchscript",
                                        "transformers.js_config",
                                        "transformers_version",
                                        "typical_p",
                                        "unk_token_id",
                                        "use_bfloat16",
                                        "use_cache"};

// Keys that change no model while they have this value, and the reason to refuse another one.
struct NeutralKey {
  const char* key;
  Json value;
  const char* why;
};
const std::vector<NeutralKey>& NeutralKeys() {
  constexpr const char* kFactor = "values are not multiplied here";
  constexpr const char* kBias = "these products have no bias here";
  constexpr const char* kNorm = "a norm of queries and keys comes with the family, not with a key";
  constexpr const char* kShared = "this family has no shared expert here";
  constexpr const char* kGroups = "experts of this family are in one group";
  static const std::vector<NeutralKey>& keys = *new std::vector<NeutralKey>{
      {"activation", "swiglu", "the MLP's gate is SiLU"},
      {"add_cross_attention", false, "there is no other sequence to attend to"},
      {"attention_out_bias", false, kBias},
      {"embedding_multiplier", 1, kFactor},
      {"first_k_dense_replace", 0, "dense layers are those of mlp_only_layers"},
      {"is_decoder", false, "there is no encoder here"},
      {"is_encoder_decoder", false, "there is no encoder here"},
      {"is_llama_config", true, "the family's name is in 'model_type'"},
      {"lm_head_bias", false, kBias},
      {"lm_head_multiplier", 1, kFactor},
      {"logit_scale", 1, kFactor},
      {"logits_scaling", 1, kFactor},
      {"moe_layer_freq", 1, "every layer behind the dense ones has experts"},
      {"n_group", 1, kGroups},
      {"n_shared_experts", 0, kShared},
      {"neftune_noise_alpha", 0, "there is no noise on embeddings here"},
      {"num_nextn_predict_layers", 0, "one token is predicted at a time"},
      {"parallel_residual", false, "attention and MLP follow each other"},
      {"pruned_heads", Json::object(), "no head is left out here"},
      {"qk_layer_norms", false, kNorm},
      {"qk_layernorm", false, kNorm},
      {"residual_multiplier", 1, kFactor},
      {"rope_interleaved", false, "a channel is rotated with the one half a head further"},
      {"routed_scaling_factor", 1, kFactor},
      {"scoring_func", "softmax", "a router's scores are a softmax in this family"},
      {"shared_expert_intermediate_size", 0, kShared},
      {"tie_encoder_decoder", false, "there is no encoder here"},
      {"topk_group", 1, kGroups},
      {"use_bias", false, kBias},
      {"use_mrope", false, "a position is one number here"},
      {"use_parallel_residual", false, "attention and MLP follow each other"},
      {"use_qk_norm", false, kNorm},
  };
  return keys;
}

// Shares of dropout under the names of any family; a missing one is 0.
constexpr const char* kDropouts[] = {
    "dropout",     "embd_pdrop",      "embedding_dropout",   "expert_dropout",
    "ffn_dropout", "hidden_dropout",  "hidden_dropout_prob", "mlp_dropout",
    "resid_pdrop", "residual_dropout"};

constexpr const char* kMeaninglessOfGpt2[] = {
    "pad_token_id",       "initializer_range",     "reorder_and_upcast_attn",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type",       "summary_use_proj",      "n_ctx"};

constexpr double kGptEpsilon = 1e-5;  // stages/models/gpt

AnyShape ReadGpt2(ConfigKeys& keys, int context) {
  GptShape shape;
  shape.layers = keys.Whole("n_layer");
  shape.width = keys.Whole("n_embd");
  shape.heads = keys.Whole("n_head");
  shape.context = keys.Context("n_positions", context);
  shape.vocabulary = keys.Whole("vocab_size");
  shape.tied = keys.Flag("tie_word_embeddings", true);
  keys.Only("n_inner", {4 * int64_t{shape.width}}, "the MLP is four times as wide as the model");
  keys.Only("activation_function", {"gelu_new", "gelu_pytorch_tanh"},
            "the activation is GELU in its tanh form, gelu_new");
  if (keys.Number("layer_norm_epsilon", kGptEpsilon) != kGptEpsilon) {
    keys.Refuse("layer_norm_epsilon", absl::StrCat("it is ", kGptEpsilon, " here"));
  }
  for (const char* const key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    keys.NoDropout(key, 0.1);
  }
  keys.Only("scale_attn_weights", {true}, "scores are divided by the root of a head's size");
  keys.Only("scale_attn_by_inverse_layer_idx", {false}, "scores do not depend on the layer");
  keys.Ignore(kMeaninglessOfGpt2);
  return shape;
}

OrderedJson WriteGpt2(const AnyShape& any) {
  const GptShape& shape = std::get<GptShape>(any.family);
  return {{"n_layer", shape.layers},
          {"n_embd", shape.width},
          {"n_head", shape.heads},
          {"n_positions", shape.context},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", kGptEpsilon},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"initializer_range", 0.02}};
}

bool HoldsGpt2(const AnyShape& shape) {
  const auto* const gpt = std::get_if<GptShape>(&shape.family);
  return gpt != nullptr && !gpt->skips;
}

bool HoldsNone(const AnyShape&) { return false; }

struct Family {
  const char* model_type;
  const char* architecture;
  AnyShape (*read)(ConfigKeys& keys, int context);
  bool (*holds)(const AnyShape& shape);  // true if a model is saved as this family
  OrderedJson (*write)(const AnyShape& shape);
  absl::Span<const StoredParam> (*params)();
  absl::Span<const StoredParam> (*packed)() = nullptr;
};

constexpr Family kFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", ReadGpt2, HoldsGpt2, WriteGpt2, Gpt2Params},
    {"llama", "LlamaForCausalLM", ReadLlama, HoldsLlama, WriteDecoder, LlamaParams},
    {"mistral", "MistralForCausalLM", ReadMistral, HoldsNone, WriteDecoder, LlamaParams},
    {"qwen2", "Qwen2ForCausalLM", ReadQwen2, HoldsQwen2, WriteDecoder, LlamaParams},
    {"qwen3", "Qwen3ForCausalLM", ReadQwen3, HoldsQwen3, WriteDecoder, LlamaParams},
    {"mixtral", "MixtralForCausalLM", ReadMixtral, HoldsMixtral, WriteMixtral, MixtralParams,
     PackedExpertParams},
    {"qwen3_moe", "Qwen3MoeForCausalLM", ReadQwen3Moe, HoldsQwen3Moe, WriteQwen3Moe, Qwen3MoeParams,
     PackedExpertParams},
};

// Families that need more ops than exist here.
constexpr struct {
  const char* model_type;
  const char* why;
} kNotBuilt[] = {
    {"qwen2_moe", "its shared expert has a gate of its own (shared_expert_gate)"},
    {"deepseek_v2", "its attention is latent (kv_lora_rank)"},
    {"deepseek_v3", "its attention is latent (kv_lora_rank)"},
};

// The folder's own config, except for the type: values are saved as F32.
std::string GivenConfig(const std::string& text) {
  OrderedJson config = OrderedJson::parse(text);
  for (const char* const key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = "float32";
  }
  return config.dump(2) + "\n";
}

absl::Status UnknownFamily(absl::string_view type) {
  for (const auto& [model_type, why] : kNotBuilt) {
    if (type != model_type) continue;
    return absl::UnimplementedError(
        absl::StrCat("'model_type' is ", Quoted(type), ": ", why, ", which is not built here"));
  }
  std::vector<std::string> known;
  for (const Family& of : kFamilies) known.push_back(of.model_type);
  return absl::UnimplementedError(
      absl::StrCat("'model_type' is ", Quoted(type), ": known are ", absl::StrJoin(known, ", ")));
}

const Family* FamilyThatHolds(const AnyShape& shape) {
  const auto* const family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                          [&](const Family& of) { return of.holds(shape); });
  return family == std::end(kFamilies) ? nullptr : family;
}

}  // namespace

absl::StatusOr<FamilyConfig> ReadFamilyConfig(absl::string_view text, int context,
                                              bool without_dropout) {
  constexpr int kDeepest = 8;
  SL_ASSIGN_OR_RETURN(const Json config, ParseJsonObject(text, "the config", kDeepest));
  const std::string type = config.contains("model_type") && config["model_type"].is_string()
                               ? config["model_type"].get<std::string>()
                               : "";
  const auto* const family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                          [&](const Family& of) { return of.model_type == type; });
  if (family == std::end(kFamilies)) return UnknownFamily(type);
  ConfigKeys keys(config);
  if (without_dropout) keys.TrainWithoutDropout();
  keys.Ignore(kMeaningless);
  for (const NeutralKey& neutral : NeutralKeys()) {
    keys.Only(neutral.key, {neutral.value}, neutral.why);
  }
  FamilyConfig read{family->model_type, family->read(keys, context), family->params(), {}};
  if (family->packed != nullptr) read.packed = family->packed();
  for (const char* const key : kDropouts) keys.NoDropout(key, 0);
  SL_RETURN_IF_ERROR(keys.Finish());
  SL_RETURN_IF_ERROR(CheckShape(read.shape.WithMicrobatch(1)));
  return read;
}

absl::StatusOr<FamilyConfig> FamilyOf(const AnyShape& shape) {
  const Family* const family = FamilyThatHolds(shape);
  if (family == nullptr) {
    if (std::holds_alternative<RaisedShape>(shape.family)) {
      return absl::UnimplementedError("what a program of torch.export is called is not known here");
    }
    const auto* const decoder = std::get_if<DecoderShape>(&shape.family);
    const bool both = std::holds_alternative<EncoderDecoderShape>(shape.family);
    return absl::UnimplementedError(
        absl::StrCat("no family of transformers that is known here has ",
                     decoder != nullptr ? WhatNoDecoderHas(*decoder)
                     : both             ? "an encoder that is built like ours"
                                        : "skips between its layers"));
  }
  return FamilyConfig{family->model_type, shape, family->params(), {}};
}

std::string PrintFamilyConfig(const AnyShape& shape) {
  if (const std::string* const given = shape.GivenFile(kConfigFile)) return GivenConfig(*given);
  const Family* const family = FamilyThatHolds(shape);
  SL_CHECK(family != nullptr);
  OrderedJson config = {{"model_type", family->model_type},
                        {"architectures", OrderedJson::array({family->architecture})},
                        {"vocab_size", shape.vocabulary()}};
  config.update(family->write(shape));
  config.update(OrderedJson{
      {"tie_word_embeddings", std::visit([](const auto& of) { return of.tied; }, shape.family)},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"torch_dtype", "float32"}});
  return config.dump(2) + "\n";
}

}  // namespace stringline
