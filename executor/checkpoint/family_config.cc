// A table of families, each with functions that read and write its config. They take values through
// ConfigKeys, which notes what was asked for: a key that nobody asked for is an error in the end.
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

// Names, versions, tokens of a tokeniser, what text generation and other heads take.
constexpr const char* kMeaningless[] = {"_name_or_path",
                                        "architectures",
                                        "bos_token_id",
                                        "chunk_size_feed_forward",
                                        "dtype",
                                        "eos_token_id",
                                        "id2label",
                                        "label2id",
                                        "max_window_layers",
                                        "model_type",
                                        "output_attentions",
                                        "output_hidden_states",
                                        "pad_token_id",
                                        "pretraining_tp",
                                        "problem_type",
                                        "return_dict",
                                        "sep_token_id",
                                        "task_specific_params",
                                        "tokenizer_class",
                                        "torch_dtype",
                                        "transformers_version",
                                        "unk_token_id",
                                        "use_cache"};

constexpr const char* kMeaninglessOfGpt2[] = {"initializer_range",      "reorder_and_upcast_attn",
                                              "summary_activation",     "summary_first_dropout",
                                              "summary_proj_to_labels", "summary_type",
                                              "summary_use_proj",       "n_ctx"};

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
  keys.Only("add_cross_attention", {false}, "there is no other sequence to attend to");
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

bool HoldsGpt2(const AnyShape& shape) { return std::holds_alternative<GptShape>(shape.family); }

bool HoldsNone(const AnyShape&) { return false; }

struct Family {
  const char* model_type;
  const char* architecture;
  AnyShape (*read)(ConfigKeys& keys, int context);
  bool (*holds)(const AnyShape& shape);  // whether a model is saved as this family
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

// Families that would be rows if more were built here.
constexpr struct {
  const char* model_type;
  const char* why;
} kNotBuilt[] = {
    {"qwen2_moe", "its shared expert has a gate of its own (shared_expert_gate)"},
    {"deepseek_v2", "its attention is latent (kv_lora_rank)"},
    {"deepseek_v3", "its attention is latent (kv_lora_rank)"},
};

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

absl::StatusOr<FamilyConfig> ReadFamilyConfig(absl::string_view text, int context) {
  constexpr int kDeepest = 8;
  SL_ASSIGN_OR_RETURN(const Json config, ParseJsonObject(text, "the config", kDeepest));
  const std::string type = config.contains("model_type") && config["model_type"].is_string()
                               ? config["model_type"].get<std::string>()
                               : "";
  const auto* const family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                          [&](const Family& of) { return of.model_type == type; });
  if (family == std::end(kFamilies)) return UnknownFamily(type);
  ConfigKeys keys(config);
  keys.Ignore(kMeaningless);
  keys.Only("is_encoder_decoder", {false}, "there is no encoder here");
  FamilyConfig read{family->model_type, family->read(keys, context), family->params(), {}};
  if (family->packed != nullptr) read.packed = family->packed();
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
    SL_CHECK(decoder != nullptr);
    return absl::UnimplementedError(absl::StrCat(
        "no family of transformers that is known here has ", WhatNoDecoderHas(*decoder)));
  }
  return FamilyConfig{family->model_type, shape, family->params(), {}};
}

std::string PrintFamilyConfig(const AnyShape& shape) {
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
