// The configs of the families that DecoderShape describes: Llama, Mistral, Qwen2, Qwen3, and the
// mixtures of experts Mixtral and Qwen3-MoE. See family_config.h.
#pragma once

#include <nlohmann/json.hpp>

#include "executor/checkpoint/config_keys.h"
#include "stages/models/model.h"

namespace stringline {

// The shape in a config, without a microbatch.
//
// `router_aux_loss_coef` becomes the coefficient of the router's balance loss. In transformers the
// loss of a token is coef E sum over e of f_e p_e, with f_e the share of tokens that chose e, and
// p_e the mean probability, both over the tokens of all L layers. Here the loss is the mean over
// the layers of the same sum, each with its own f and p, since the layers are on different ranks.
// f_e counts each of a token's K choices, while the op's (ops.def) counts slots; so aux_coefficient
// = coef K / L.
AnyShape ReadLlama(ConfigKeys& keys, int context);
AnyShape ReadMistral(ConfigKeys& keys, int context);
AnyShape ReadQwen2(ConfigKeys& keys, int context);
AnyShape ReadQwen3(ConfigKeys& keys, int context);
AnyShape ReadMixtral(ConfigKeys& keys, int context);
AnyShape ReadQwen3Moe(ConfigKeys& keys, int context);

// True if the family describes the model.
bool HoldsLlama(const AnyShape& shape);
bool HoldsQwen2(const AnyShape& shape);
bool HoldsQwen3(const AnyShape& shape);
bool HoldsMixtral(const AnyShape& shape);
bool HoldsQwen3Moe(const AnyShape& shape);

// A feature of the decoder that no family has; "" if a family describes the decoder.
std::string WhatNoDecoderHas(const DecoderShape& shape);

nlohmann::ordered_json WriteDecoder(const AnyShape& shape);
nlohmann::ordered_json WriteMixtral(const AnyShape& shape);
nlohmann::ordered_json WriteQwen3Moe(const AnyShape& shape);

}  // namespace stringline
