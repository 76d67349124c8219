// A config is read key by key; a key without a counterpart in DecoderShape must have a value
// without effect. Defaults are those of transformers, except that configs of mixtures of experts
// must give all sizes.
#include "executor/checkpoint/decoder_config.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/json_tree.h"

namespace stringline {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kBalanceLoss = "router_aux_loss_coef";

// The balance loss of a config as aux_coefficient, for each unit of its coefficient.
double BalanceFactor(const DecoderShape& shape) {
  const int layers = shape.layers - shape.moe.first_dense;
  return layers < 1 ? 0 : static_cast<double>(shape.moe.top_k) / layers;
}

// A config without the coefficient has transformers' default, 0.001.
void ReadBalanceLoss(ConfigKeys& keys, DecoderShape* shape) {
  shape->moe.aux_coefficient = keys.Number(kBalanceLoss, 0.001) * BalanceFactor(*shape);
  keys.Flag("output_router_logits", false);
}

// The coefficient in a config for the aux_coefficient of the shape.
double ConfigBalanceLoss(const DecoderShape& shape) {
  const double factor = BalanceFactor(shape);
  return factor == 0 ? 0 : shape.moe.aux_coefficient / factor;
}

// Theta, which newer configs keep in `rope_parameters` and older ones beside `rope_scaling`.
double ReadTheta(ConfigKeys& keys, double otherwise) {
  double theta = keys.Number("rope_theta", otherwise);
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
    of_rope.Only("factor", {1.0}, "rotary positions are not scaled here");
    keys.Fail(of_rope.Finish());
  }
  if (!(theta >= 1)) keys.Refuse("rope_theta", "a number from 1 is needed");
  return theta;
}

// A window at least as long as every sequence has no effect, in any layer.
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

// The differences between the families that DecoderShape describes.
struct DecoderFamily {
  bool qkv_bias = false;
  bool qk_norm = false;
  int head_dim = 0;                // default; 0: width / heads
  std::optional<int> window = {};  // default
  double theta = 10000;            // likewise
  double epsilon = 1e-6;           // likewise
  // Reads the experts in place of the MLP, or of all but the first MLPs.
  void (*experts)(ConfigKeys& keys, DecoderShape* shape) = nullptr;
};

AnyShape ReadDecoder(ConfigKeys& keys, int context, const DecoderFamily& family) {
  DecoderShape shape;
  shape.layers = keys.Whole("num_hidden_layers");
  shape.width = keys.Whole("hidden_size");
  shape.heads = keys.Whole("num_attention_heads");
  shape.kv_heads =
      keys.Whole("num_key_value_heads",
                 family.experts == nullptr ? std::optional<int>(shape.heads) : std::nullopt);
  shape.head_dim = keys.Whole(
      "head_dim", family.head_dim > 0 ? family.head_dim : std::max(1, shape.width / shape.heads));
  if (family.experts == nullptr) {
    shape.hidden = keys.Whole("intermediate_size");
  } else {
    family.experts(keys, &shape);
  }
  shape.context = keys.Context("max_position_embeddings", context);
  shape.vocabulary = keys.Whole("vocab_size");
  shape.rope_theta = ReadTheta(keys, family.theta);
  shape.norm_epsilon = keys.Number("rms_norm_eps", family.epsilon);
  shape.init_stddev = keys.Number("initializer_range", 0.02);
  shape.tied = keys.Flag("tie_word_embeddings", false);
  shape.qkv_bias = family.qkv_bias;
  shape.qk_norm = family.qk_norm;
  CheckWindow(keys, shape.context, family.window);
  keys.NoDropout("attention_dropout", 0);
  keys.Only("pad_token_id", {},
            "transformers does not train that token's row of the table (padding_idx), and all rows "
            "are trained here; null trains it there, too, and changes nothing for data without it");
  keys.Only("hidden_act", {"silu", "swish"}, "the MLP's gate is SiLU");
  for (const char* const key : {"attention_bias", "mlp_bias"}) {
    keys.Only(key, {false}, "these products have no bias here");
  }
  keys.Only("partial_rotary_factor", {1.0}, "every channel of a head is rotated");
  return shape;
}

// Newer configs use Mixtral's name of the key.
int CountOfExperts(ConfigKeys& keys) {
  const char* const names[] = {"num_local_experts", "num_experts"};
  const Json* const first = keys.Find(names[0]);
  const Json* const second = keys.Find(names[1]);
  if (first != nullptr && second != nullptr && *first != *second) {
    keys.Refuse(names[1], absl::StrCat("'", names[0], "' is ", InJson(*first)));
  }
  return keys.Whole(names[first == nullptr && second != nullptr ? 1 : 0]);
}

void ReadMixtralExperts(ConfigKeys& keys, DecoderShape* shape) {
  shape->moe.experts = CountOfExperts(keys);
  shape->moe.top_k = keys.Whole("num_experts_per_tok");
  shape->moe.expert_hidden = keys.Whole("intermediate_size");
  keys.Only("router_jitter_noise", {0.0}, "there is no noise before the router here");
  ReadBalanceLoss(keys, shape);
}

// The number of dense layers: `mlp_only_layers`, which must be the first layers.
int DenseLayersOf(ConfigKeys& keys) {
  constexpr const char* kKey = "mlp_only_layers";
  const Json* const listed = keys.Find(kKey);
  if (listed == nullptr) return 0;
  bool first = listed->is_array();
  for (size_t i = 0; first && i < listed->size(); ++i) first = (*listed)[i] == i;
  if (!first) keys.Refuse(kKey, "dense layers come first here: 0, 1, and so on, or none");
  return first ? static_cast<int>(listed->size()) : 0;
}

void ReadQwen3Experts(ConfigKeys& keys, DecoderShape* shape) {
  shape->moe.experts = CountOfExperts(keys);
  shape->moe.top_k = keys.Whole("num_experts_per_tok");
  shape->moe.expert_hidden = keys.Whole("moe_intermediate_size");
  shape->moe.normalise = keys.Flag("norm_topk_prob", false);
  shape->moe.first_dense = DenseLayersOf(keys);
  const int hidden = keys.Whole("intermediate_size", 1);
  if (shape->moe.first_dense > 0) shape->hidden = hidden;
  keys.Only("decoder_sparse_step", {1}, "every layer behind the dense ones has experts");
  ReadBalanceLoss(keys, shape);
}

OrderedJson Written(const DecoderShape& shape) {
  OrderedJson config = {
      {"num_hidden_layers", shape.layers},
      {"hidden_size", shape.width},
      {"num_attention_heads", shape.heads},
      {"num_key_value_heads", shape.kv_heads},
      {"head_dim", shape.head_dim},
      {"max_position_embeddings", shape.context},
      {"rms_norm_eps", shape.norm_epsilon},
      {"rope_theta", shape.rope_theta},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", shape.rope_theta}}},
      {"hidden_act", "silu"},
      {"attention_dropout", 0.0},
      {"initializer_range", shape.init_stddev}};
  return config;
}

const DecoderShape* DecoderOf(const AnyShape& shape) {
  return std::get_if<DecoderShape>(&shape.family);
}

bool HoldsDense(const AnyShape& shape, bool qkv_bias, bool qk_norm) {
  const DecoderShape* const decoder = DecoderOf(shape);
  return decoder != nullptr && decoder->moe.experts == 0 && decoder->qkv_bias == qkv_bias &&
         decoder->qk_norm == qk_norm;
}

bool HoldsExperts(const AnyShape& shape) {
  const DecoderShape* const decoder = DecoderOf(shape);
  return decoder != nullptr && decoder->moe.experts > 0 && WhatNoDecoderHas(*decoder).empty();
}

}  // namespace

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
AnyShape ReadMixtral(ConfigKeys& keys, int context) {
  return ReadDecoder(keys, context, {.theta = 1e6, .epsilon = 1e-5, .experts = ReadMixtralExperts});
}
AnyShape ReadQwen3Moe(ConfigKeys& keys, int context) {
  return ReadDecoder(keys, context, {.qk_norm = true, .experts = ReadQwen3Experts});
}

bool HoldsLlama(const AnyShape& shape) { return HoldsDense(shape, false, false); }
bool HoldsQwen2(const AnyShape& shape) { return HoldsDense(shape, true, false); }
bool HoldsQwen3(const AnyShape& shape) { return HoldsDense(shape, false, true); }
bool HoldsMixtral(const AnyShape& shape) {
  return HoldsExperts(shape) && !DecoderOf(shape)->qk_norm;
}
bool HoldsQwen3Moe(const AnyShape& shape) {
  return HoldsExperts(shape) && DecoderOf(shape)->qk_norm;
}

std::string WhatNoDecoderHas(const DecoderShape& shape) {
  const MoeShape& moe = shape.moe;
  const bool experts = moe.experts > 0;
  const struct {
    bool is;
    const char* what;
  } settings[] = {
      {!experts && shape.qkv_bias && shape.qk_norm, "both a bias of qkv and norms of heads"},
      {experts && shape.qkv_bias, "experts and a bias of qkv (qkv_bias)"},
      {moe.scores != RouterScores::kSoftmax, "a router with sigmoid scores (scores)"},
      {moe.balance_rate != 0, "a bias of the router (balance_rate)"},
      {moe.shared_hidden > 0, "a shared expert (shared_hidden)"},
      {moe.groups > 1, "groups of experts (groups)"},
      {moe.scale != 1, "a factor of experts' weights (scale)"},
      {!moe.normalise && !shape.qk_norm,
       "weights of experts with any sum (normalise) without norms of heads (qk_norm)"},
      {moe.first_dense > 0 && !shape.qk_norm,
       "dense layers before those with experts (first_dense) without norms of heads (qk_norm)"},
  };
  for (const auto& [is, what] : settings) {
    if (is) return what;
  }
  return "";
}

OrderedJson WriteDecoder(const AnyShape& any) {
  const DecoderShape& shape = *DecoderOf(any);
  OrderedJson config = Written(shape);
  config["intermediate_size"] = shape.hidden;
  config[shape.qkv_bias ? "use_sliding_window" : "attention_bias"] = false;
  return config;
}

OrderedJson WriteMixtral(const AnyShape& any) {
  const DecoderShape& shape = *DecoderOf(any);
  OrderedJson config = Written(shape);
  config.update(OrderedJson{{"intermediate_size", shape.moe.expert_hidden},
                            {"num_local_experts", shape.moe.experts},
                            {"num_experts_per_tok", shape.moe.top_k},
                            {"router_jitter_noise", 0.0},
                            {"output_router_logits", false},
                            {kBalanceLoss, ConfigBalanceLoss(shape)},
                            {"sliding_window", nullptr}});
  return config;
}

OrderedJson WriteQwen3Moe(const AnyShape& any) {
  const DecoderShape& shape = *DecoderOf(any);
  const MoeShape& moe = shape.moe;
  OrderedJson config = Written(shape);
  OrderedJson dense = OrderedJson::array();
  for (int layer = 0; layer < moe.first_dense; ++layer) dense.push_back(layer);
  config.update(
      OrderedJson{{"intermediate_size", moe.first_dense > 0 ? shape.hidden : moe.expert_hidden},
                  {"moe_intermediate_size", moe.expert_hidden},
                  {"num_experts", moe.experts},
                  {"num_experts_per_tok", moe.top_k},
                  {"norm_topk_prob", moe.normalise},
                  {"decoder_sparse_step", 1},
                  {"mlp_only_layers", dense},
                  {"output_router_logits", false},
                  {kBalanceLoss, ConfigBalanceLoss(shape)},
                  {"attention_bias", false},
                  {"use_sliding_window", false},
                  {"sliding_window", nullptr}});
  return config;
}

}  // namespace stringline
