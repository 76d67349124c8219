#include "executor/checkpoint/family_config.h"

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/config_keys.h"
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

void NoDropout(ConfigKeys& keys, const char* key, double otherwise) {
  if (keys.Number(key, otherwise) == 0) return;
  keys.Refuse(key, "there is no dropout here; 0 trains without", otherwise);
}

// The tokens of a sequence: as wished, and no more than the model takes.
int ContextOf(ConfigKeys& keys, const char* key, int wished) {
  const int most = keys.Whole(key);
  if (wished <= most) return wished > 0 ? wished : most;
  keys.Refuse(key, absl::StrCat("fewer than the ", wished, " tokens of model.context"));
  return most;
}

AnyShape ReadGpt2(ConfigKeys& keys, int context) {
  GptShape shape;
  shape.layers = keys.Whole("n_layer");
  shape.width = keys.Whole("n_embd");
  shape.heads = keys.Whole("n_head");
  shape.context = ContextOf(keys, "n_positions", context);
  shape.vocabulary = keys.Whole("vocab_size");
  shape.tied = keys.Flag("tie_word_embeddings", true);
  keys.Only("n_inner", {4 * int64_t{shape.width}}, "the MLP is four times as wide as the model");
  keys.Only("activation_function", {"gelu_new", "gelu_pytorch_tanh"},
            "the activation is GELU in its tanh form, gelu_new");
  if (keys.Number("layer_norm_epsilon", kGptEpsilon) != kGptEpsilon) {
    keys.Refuse("layer_norm_epsilon", absl::StrCat("it is ", kGptEpsilon, " here"));
  }
  for (const char* const key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    NoDropout(keys, key, 0.1);
  }
  keys.Only("scale_attn_weights", {true}, "scores are divided by the root of a head's size");
  keys.Only("scale_attn_by_inverse_layer_idx", {false}, "scores do not depend on the layer");
  keys.Only("add_cross_attention", {false}, "there is no other sequence to attend to");
  keys.Ignore(kMeaninglessOfGpt2);
  return shape;
}

// Theta, which newer configs keep in `rope_parameters` and older ones beside `rope_scaling`.
double ReadTheta(ConfigKeys& keys) {
  constexpr double kTheta = 10000;
  double theta = keys.Number("rope_theta", kTheta);
  for (const char* const key : {"rope_parameters", "rope_scaling"}) {
    const Json* const rope = keys.Find(key);
    if (rope == nullptr) continue;
    if (!rope->is_object()) {
      keys.Refuse(key, "an object is needed");
      continue;
    }
    ConfigKeys of_rope(*rope, absl::StrCat(key, "."));
    theta = of_rope.Number("rope_theta", theta);
    for (const char* const type : {"rope_type", "type"}) {
      of_rope.Only(type, {"default"}, "rotary positions are not scaled here");
    }
    of_rope.Only("partial_rotary_factor", {1.0}, "every channel of a head is rotated");
    keys.Fail(of_rope.Finish());
  }
  if (!(theta >= 1)) keys.Refuse("rope_theta", "a number from 1 is needed");
  return theta;
}

// A window that no sequence is longer than changes nothing, in whichever layers it is.
void CheckWindow(ConfigKeys& keys, int context, std::optional<int> otherwise) {
  const bool used = keys.Flag("use_sliding_window", true);
  const int window = keys.Whole("sliding_window", otherwise.value_or(context));
  if (const Json* const types = keys.Find("layer_types")) {
    for (const Json& type : *types) {
      if (type == "full_attention" || type == "sliding_attention") continue;
      keys.Refuse("layer_types", absl::StrCat("there is no ", InJson(type), " here"));
      return;
    }
  }
  if (!used || window >= context) return;
  keys.Refuse("sliding_window",
              absl::StrCat("attention sees the whole sequence, of ", context,
                           " tokens; a model.context of ", window, " or less fits into the window"),
              window);
}

// What differs between the families that DecoderShape describes.
struct DecoderFamily {
  bool qkv_bias = false;
  bool qk_norm = false;
  int head_dim = 0;                // where the config does not say it; 0: width / heads
  std::optional<int> window = {};  // where the config does not say it
};

AnyShape ReadDecoder(ConfigKeys& keys, int context, const DecoderFamily& family) {
  DecoderShape shape;
  shape.layers = keys.Whole("num_hidden_layers");
  shape.width = keys.Whole("hidden_size");
  shape.heads = keys.Whole("num_attention_heads");
  shape.kv_heads = keys.Whole("num_key_value_heads", shape.heads);
  shape.head_dim = keys.Whole(
      "head_dim", family.head_dim > 0 ? family.head_dim : std::max(1, shape.width / shape.heads));
  shape.hidden = keys.Whole("intermediate_size");
  shape.context = ContextOf(keys, "max_position_embeddings", context);
  shape.vocabulary = keys.Whole("vocab_size");
  shape.rope_theta = ReadTheta(keys);
  shape.norm_epsilon = keys.Number("rms_norm_eps", 1e-6);
  shape.init_stddev = keys.Number("initializer_range", 0.02);
  shape.tied = keys.Flag("tie_word_embeddings", false);
  shape.qkv_bias = family.qkv_bias;
  shape.qk_norm = family.qk_norm;
  CheckWindow(keys, shape.context, family.window);
  NoDropout(keys, "attention_dropout", 0);
  keys.Only("hidden_act", {"silu", "swish"}, "the MLP's gate is SiLU");
  for (const char* const key : {"attention_bias", "mlp_bias"}) {
    keys.Only(key, {false}, "these products have no bias here");
  }
  keys.Only("partial_rotary_factor", {1.0}, "every channel of a head is rotated");
  return shape;
}

AnyShape ReadLlama(ConfigKeys& keys, int context) { return ReadDecoder(keys, context, {}); }
AnyShape ReadMistral(ConfigKeys& keys, int context) {
  return ReadDecoder(keys, context, {.window = 4096});
}
AnyShape ReadQwen2(ConfigKeys& keys, int context) {
  return ReadDecoder(keys, context, {.qkv_bias = true});
}
AnyShape ReadQwen3(ConfigKeys& keys, int context) {
  return ReadDecoder(keys, context, {.qk_norm = true, .head_dim = 128});
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

OrderedJson WriteDecoder(const AnyShape& any) {
  const DecoderShape& shape = std::get<DecoderShape>(any.family);
  OrderedJson config = {
      {"num_hidden_layers", shape.layers},
      {"hidden_size", shape.width},
      {"num_attention_heads", shape.heads},
      {"num_key_value_heads", shape.kv_heads},
      {"head_dim", shape.head_dim},
      {"intermediate_size", shape.hidden},
      {"max_position_embeddings", shape.context},
      {"rms_norm_eps", shape.norm_epsilon},
      {"rope_theta", shape.rope_theta},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", shape.rope_theta}}},
      {"hidden_act", "silu"},
      {"attention_dropout", 0.0},
      {"initializer_range", shape.init_stddev}};
  if (shape.qkv_bias) config["use_sliding_window"] = false;
  if (!shape.qkv_bias) config["attention_bias"] = false;
  return config;
}

bool HoldsGpt2(const AnyShape& shape) { return std::holds_alternative<GptShape>(shape.family); }

bool HoldsDecoder(const AnyShape& shape, bool qkv_bias, bool qk_norm) {
  const DecoderShape* const decoder = std::get_if<DecoderShape>(&shape.family);
  return decoder != nullptr && decoder->moe.experts == 0 && decoder->qkv_bias == qkv_bias &&
         decoder->qk_norm == qk_norm;
}
bool HoldsLlama(const AnyShape& shape) { return HoldsDecoder(shape, false, false); }
bool HoldsQwen2(const AnyShape& shape) { return HoldsDecoder(shape, true, false); }
bool HoldsQwen3(const AnyShape& shape) { return HoldsDecoder(shape, false, true); }
bool HoldsNone(const AnyShape&) { return false; }

struct Family {
  const char* model_type;
  const char* architecture;
  AnyShape (*read)(ConfigKeys& keys, int context);
  bool (*holds)(const AnyShape& shape);  // whether a model is saved as this family
  OrderedJson (*write)(const AnyShape& shape);
  absl::Span<const StoredParam> (*params)();
};

constexpr Family kFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", ReadGpt2, HoldsGpt2, WriteGpt2, Gpt2Params},
    {"llama", "LlamaForCausalLM", ReadLlama, HoldsLlama, WriteDecoder, LlamaParams},
    {"mistral", "MistralForCausalLM", ReadMistral, HoldsNone, WriteDecoder, LlamaParams},
    {"qwen2", "Qwen2ForCausalLM", ReadQwen2, HoldsQwen2, WriteDecoder, LlamaParams},
    {"qwen3", "Qwen3ForCausalLM", ReadQwen3, HoldsQwen3, WriteDecoder, LlamaParams},
};

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
  if (family == std::end(kFamilies)) {
    std::vector<std::string> known;
    for (const Family& of : kFamilies) known.push_back(of.model_type);
    return absl::UnimplementedError(
        absl::StrCat("'model_type' is ", Quoted(type), ": known are ", absl::StrJoin(known, ", ")));
  }
  ConfigKeys keys(config);
  keys.Ignore(kMeaningless);
  keys.Only("is_encoder_decoder", {false}, "there is no encoder here");
  FamilyConfig read{family->model_type, family->read(keys, context), family->params()};
  SL_RETURN_IF_ERROR(keys.Finish());
  SL_RETURN_IF_ERROR(CheckShape(read.shape.WithMicrobatch(1)));
  return read;
}

absl::StatusOr<FamilyConfig> FamilyOf(const AnyShape& shape) {
  const Family* const family = FamilyThatHolds(shape);
  if (family == nullptr) {
    return absl::UnimplementedError(
        "no family of transformers that is known here has both a bias of qkv and norms of heads");
  }
  return FamilyConfig{family->model_type, shape, family->params()};
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
