// Configs of Hugging Face folders: which are read, and what is said of the others.
#include "executor/checkpoint/family_config.h"

#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace stringline {
namespace {

// A Qwen3-MoE whose first layer is dense.
DecoderShape DenseFirstMixture() {
  DecoderShape shape = {.layers = 3,
                        .width = 12,
                        .heads = 4,
                        .context = 7,
                        .vocabulary = 31,
                        .microbatch = 1,
                        .kv_heads = 2,
                        .head_dim = 4,
                        .hidden = 10};
  shape.qk_norm = true;
  shape.moe = {.experts = 4, .top_k = 2, .expert_hidden = 6, .first_dense = 1, .normalise = false};
  return shape;
}

constexpr const char* kLlama =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 10, "max_position_embeddings": 32,
    "vocab_size": 31, "tie_word_embeddings": false)";
constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 5, "n_ctx": 5,
    "vocab_size": 40, "attn_pdrop": 0, "embd_pdrop": 0.0, "resid_pdrop": 0)";

TEST(FamilyConfig, ConfigsOfOlderVersionsAreRead) {
  const auto llama = ReadFamilyConfig(absl::StrCat(kLlama, R"(, "rope_theta": 500000.0,
      "rope_scaling": null, "torch_dtype": "bfloat16", "use_cache": true, "bos_token_id": 1,
      "attention_bias": false, "rms_norm_eps": 1e-05, "transformers_version": "4.40.0"})"),
                                      8);
  ASSERT_TRUE(llama.ok()) << llama.status();
  const DecoderShape& shape = std::get<DecoderShape>(llama->shape.family);
  EXPECT_EQ(shape.rope_theta, 5e5);
  EXPECT_EQ(shape.head_dim, 4);
  EXPECT_EQ(shape.context, 8);
}

constexpr const char* kQwen3Moe =
    R"({"model_type": "qwen3_moe", "num_hidden_layers": 3, "hidden_size": 16,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 10,
    "max_position_embeddings": 32, "vocab_size": 31, "moe_intermediate_size": 6,
    "num_experts_per_tok": 2, "router_aux_loss_coef": 0.002, "output_router_logits": true)";

TEST(FamilyConfig, ConfigsOfMixturesOfExpertsAreRead) {
  const auto qwen = ReadFamilyConfig(
      absl::StrCat(kQwen3Moe, R"(, "num_local_experts": 4, "mlp_only_layers": [0, 1]})"), 0);
  ASSERT_TRUE(qwen.ok()) << qwen.status();
  const DecoderShape& shape = std::get<DecoderShape>(qwen->shape.family);
  EXPECT_EQ(shape.moe, (MoeShape{.experts = 4,
                                 .top_k = 2,
                                 .expert_hidden = 6,
                                 .first_dense = 2,
                                 .normalise = false,
                                 .aux_coefficient = 0.004}));
  EXPECT_EQ(shape.hidden, 10);
  EXPECT_EQ(shape.head_dim, 4);
  const auto mixtral = ReadFamilyConfig(R"({"model_type": "mixtral", "num_hidden_layers": 1,
      "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 10, "max_position_embeddings": 32, "vocab_size": 31,
      "num_local_experts": 4, "num_experts_per_tok": 2, "router_jitter_noise": 0})",
                                        0);
  ASSERT_TRUE(mixtral.ok()) << mixtral.status();
  const DecoderShape& other = std::get<DecoderShape>(mixtral->shape.family);
  EXPECT_EQ(other.moe,
            (MoeShape{.experts = 4, .top_k = 2, .expert_hidden = 10, .aux_coefficient = 0.002}));
  EXPECT_EQ(other.rope_theta, 1e6);
  EXPECT_EQ(other.norm_epsilon, 1e-5);
}

struct BadConfig {
  std::string keys;  // behind those of a good one
  const char* says;
};

TEST(FamilyConfig, WhatAConfigAsksForAndIsNotHereIsSaid) {
  const BadConfig of_llama[] = {
      {R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0})",
       "'rope_scaling.rope_type' is \"llama3\": rotary positions are not scaled here"},
      {R"(, "rope_scaling": {"type": "linear", "factor": 2.0})",
       "'rope_scaling.type' is \"linear\": rotary positions are not scaled here"},
      {R"(, "rope_parameters": {"rope_type": "default", "beta": 2})",
       "'rope_parameters.beta' is 2: nothing is known of this key"},
      {R"(, "sliding_window": 16)",
       "'sliding_window' is 16: attention sees the whole sequence, of 32 tokens; a model.context "
       "of "
       "16 or less fits into the window"},
      {R"(, "layer_types": ["full_attention", "linear_attention"])",
       "'layer_types' is [\"full_attention\",\"linear_attention\"]: there is no "
       "\"linear_attention\" here"},
      {R"(, "attention_dropout": 0.1)",
       "'attention_dropout' is 0.1: there is no dropout here; 'dropout: 0' in the run "
       "file's model trains without"},
      {R"(, "attention_bias": true)", "'attention_bias' is true: these products have no bias here"},
      {R"(, "mlp_bias": true)", "'mlp_bias' is true: these products have no bias here"},
      {R"(, "hidden_act": "gelu")", "'hidden_act' is \"gelu\": the MLP's gate is SiLU"},
      {R"(, "pad_token_id": 3)",
       "'pad_token_id' is 3: transformers does not train that token's row of the table "
       "(padding_idx), and all rows are trained here; null trains it there, too, and changes "
       "nothing for data without it"},
      {R"(, "partial_rotary_factor": 0.5)",
       "'partial_rotary_factor' is 0.5: every channel of a head is rotated"},
      {R"(, "quantization_config": {"bits": 4})",
       "'quantization_config' is {\"bits\":4}: nothing is known of this key"},
      {R"(, "head_dim": 5)", "heads of 5 channels cannot be rotated in pairs"},
      {R"(, "rms_norm_eps": "small")", "'rms_norm_eps' is \"small\": a number is needed"},
      {R"(, "head_dim": 0)", "'head_dim' is 0: a whole number in 1 .. 1048576 is needed"},
      {R"(, "vocab_size": 32)", "'vocab_size' stands there twice"},
      {R"(, "kv_lora_rank": 512)", "'kv_lora_rank' is 512: nothing is known of this key"},
  };
  for (const BadConfig& bad : of_llama) {
    const std::string text = absl::StrCat(kLlama, bad.keys, "}");
    EXPECT_EQ(ReadFamilyConfig(text, 0).status().message(), bad.says);
  }
  const BadConfig of_gpt2[] = {
      {R"(, "n_inner": 16)", "'n_inner' is 16: the MLP is four times as wide as the model"},
      {R"(, "activation_function": "relu")",
       "'activation_function' is \"relu\": the activation is GELU in its tanh form, gelu_new"},
      {R"(, "layer_norm_epsilon": 1e-6)", "'layer_norm_epsilon' is 1e-06: it is 1e-05 here"},
      {R"(, "scale_attn_by_inverse_layer_idx": true)",
       "'scale_attn_by_inverse_layer_idx' is true: scores do not depend on the layer"},
      {R"(, "use_magic": 1)", "'use_magic' is 1: nothing is known of this key"},
  };
  for (const BadConfig& bad : of_gpt2) {
    EXPECT_EQ(ReadFamilyConfig(absl::StrCat(kGpt2, bad.keys, "}"), 0).status().message(), bad.says);
  }
  const BadConfig of_qwen3_moe[] = {
      {"",
       "'num_local_experts' is not there, which means null: a whole number in 1 .. 1048576 is "
       "needed"},
      {R"(, "num_experts": 4, "num_local_experts": 8)",
       "'num_experts' is 4: 'num_local_experts' is 8"},
      {R"(, "num_experts": 4, "decoder_sparse_step": 2)",
       "'decoder_sparse_step' is 2: every layer behind the dense ones has experts"},
      {R"(, "num_experts": 4, "mlp_only_layers": [1])",
       "'mlp_only_layers' is [1]: dense layers come first here: 0, 1, and so on, or none"},
      {R"(, "num_experts": 4, "norm_topk_prob": 1)",
       "'norm_topk_prob' is 1: true or false is needed"},
      {R"(, "num_experts": 1)", "a token chooses 2 experts of 1"},
      {R"(, "num_experts": 4, "n_group": 2)",
       "'n_group' is 2: experts of this family are in one group"},
      {R"(, "num_experts": 4, "shared_expert_intermediate_size": 8)",
       "'shared_expert_intermediate_size' is 8: this family has no shared expert here"},
  };
  for (const BadConfig& bad : of_qwen3_moe) {
    EXPECT_EQ(ReadFamilyConfig(absl::StrCat(kQwen3Moe, bad.keys, "}"), 0).status().message(),
              bad.says);
  }
  const std::string silent = absl::StrReplaceAll(kGpt2, {{", \"attn_pdrop\": 0", ""}});
  const BadConfig others[] = {
      {absl::StrCat(silent, "}"),
       "'attn_pdrop' is not there, which means 0.1: there is no dropout here; 'dropout: 0' in the "
       "run "
       "file's model trains without"},
      {R"({"model_type": "bert"})",
       "'model_type' is 'bert': known are gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe"},
      {R"({"model_type": "llama"})",
       "'num_hidden_layers' is not there, which means null: a whole number in 1 .. 1048576 is "
       "needed"},
      {"{}",
       "'model_type' is '': known are gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe"},
      {R"({"model_type": "deepseek_v3"})",
       "'model_type' is 'deepseek_v3': its attention is latent (kv_lora_rank), which is not built "
       "here"},
      {R"({"model_type": "qwen2_moe"})",
       "'model_type' is 'qwen2_moe': its shared expert has a gate of its own "
       "(shared_expert_gate), which is not built here"},
      {"[]", "the config is not a JSON object"},
      {"", "the config is not JSON"},
  };
  for (const BadConfig& bad : others) {
    EXPECT_EQ(ReadFamilyConfig(bad.keys, 0).status().message(), bad.says);
  }
}

// Keys that change nothing at their value, or say nothing.
TEST(FamilyConfig, HarmlessKeysAreNoReasonToRefuseAModel) {
  for (const char* const keys :
       {R"("use_mrope": false)", R"("is_llama_config": true, "rope_interleaved": false)",
        R"("transformers.js_config": {"dtype": "fp16"})", R"("quantization_config": null)",
        R"("attn_logit_softcapping": null, "final_logit_softcapping": null)",
        R"("residual_dropout": 0.0, "embd_pdrop": 0, "hidden_dropout": 0)",
        R"("neftune_noise_alpha": 0.0, "logit_scale": 1.0, "qk_layer_norms": false)",
        R"("pruned_heads": {}, "tie_encoder_decoder": false, "is_decoder": false)",
        R"("max_length": 20, "do_sample": true, "temperature": 0.6, "top_p": 0.9)",
        R"("rope_scaling": {"rope_type": "default", "factor": 1.0, "beta_fast": null})"}) {
    EXPECT_TRUE(ReadFamilyConfig(absl::StrCat(kLlama, ", ", keys, "}"), 0).ok())
        << ReadFamilyConfig(absl::StrCat(kLlama, ", ", keys, "}"), 0).status();
  }
  const BadConfig others[] = {
      {R"("use_mrope": true)", "'use_mrope' is true: a position is one number here"},
      {R"("rope_interleaved": true)",
       "'rope_interleaved' is true: a channel is rotated with the one half a head further"},
      {R"("is_llama_config": false)",
       "'is_llama_config' is false: the family's name is in 'model_type'"},
      {R"("logit_scale": 0.5)", "'logit_scale' is 0.5: values are not multiplied here"},
      {R"("residual_dropout": 0.1)",
       "'residual_dropout' is 0.1: there is no dropout here; 'dropout: 0' in the run file's model "
       "trains without"},
      {R"("final_logit_softcapping": 30.0)",
       "'final_logit_softcapping' is 30.0: nothing is known of this key"},
      {R"("rope_scaling": {"rope_type": "default", "factor": 2.0})",
       "'rope_scaling.factor' is 2.0: rotary positions are not scaled here"},
  };
  for (const BadConfig& bad : others) {
    EXPECT_EQ(ReadFamilyConfig(absl::StrCat(kLlama, ", ", bad.keys, "}"), 0).status().message(),
              bad.says);
  }
}

TEST(FamilyConfig, DropoutOfAConfigMayBeLeftOut) {
  const std::string gpt2 =
      absl::StrReplaceAll(kGpt2, {{"\"attn_pdrop\": 0", "\"attn_pdrop\": 0.1"}});
  const std::string llama = absl::StrCat(kLlama, R"(, "attention_dropout": 0.1)");
  for (const std::string& text : {gpt2, llama}) {
    EXPECT_FALSE(ReadFamilyConfig(absl::StrCat(text, "}"), 0).ok());
    EXPECT_TRUE(ReadFamilyConfig(absl::StrCat(text, "}"), 0, /*without_dropout=*/true).ok());
  }
}

// A config's coefficient is that of a mean over layers of sums over choices.
TEST(FamilyConfig, TheBalanceLossOfAConfigIsTheRuns) {
  DecoderShape shape = DenseFirstMixture();
  shape.moe.aux_coefficient = 0.25;
  const nlohmann::json config = nlohmann::json::parse(PrintFamilyConfig(shape));
  EXPECT_EQ(config["router_aux_loss_coef"], 0.25);  // two layers with experts, two choices
  shape.moe.top_k = 4;
  EXPECT_EQ(nlohmann::json::parse(PrintFamilyConfig(shape))["router_aux_loss_coef"], 0.125);
  const auto read = ReadFamilyConfig(PrintFamilyConfig(shape), 0);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<DecoderShape>(read->shape.family).moe.aux_coefficient, 0.25);
}

// Every cut of a good config is an error, not the end of the process.
TEST(FamilyConfig, ACutConfigIsRefused) {
  const std::string good = PrintFamilyConfig(DenseFirstMixture());
  EXPECT_TRUE(ReadFamilyConfig(good, 0).ok());
  for (size_t bytes = 0; bytes + 2 < good.size(); ++bytes) {
    EXPECT_FALSE(ReadFamilyConfig(good.substr(0, bytes), 0).ok()) << bytes;
  }
}

}  // namespace
}  // namespace stringline
