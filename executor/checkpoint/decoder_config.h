// The configs of the families that DecoderShape describes: Llama, Mistral, Qwen2, Qwen3, and the
// mixtures of experts Mixtral and Qwen3-MoE. See family_config.h.
#pragma once

#include <nlohmann/json.hpp>

#include "executor/checkpoint/config_keys.h"
#include "stages/models/model.h"

namespace stringline {

// What a config says, without a microbatch. A router's balance loss is none of the model: its
// coefficient is that of the run, model.aux_coefficient, and keys of it are not read.
AnyShape ReadLlama(ConfigKeys& keys, int context);
AnyShape ReadMistral(ConfigKeys& keys, int context);
AnyShape ReadQwen2(ConfigKeys& keys, int context);
AnyShape ReadQwen3(ConfigKeys& keys, int context);
AnyShape ReadMixtral(ConfigKeys& keys, int context);
AnyShape ReadQwen3Moe(ConfigKeys& keys, int context);

// Whether the family describes the model.
bool HoldsLlama(const AnyShape& shape);
bool HoldsQwen2(const AnyShape& shape);
bool HoldsQwen3(const AnyShape& shape);
bool HoldsMixtral(const AnyShape& shape);
bool HoldsQwen3Moe(const AnyShape& shape);

// What a decoder has that none of the families has; "" if one of them describes it.
std::string WhatNoDecoderHas(const DecoderShape& shape);

nlohmann::ordered_json WriteDecoder(const AnyShape& shape);
nlohmann::ordered_json WriteMixtral(const AnyShape& shape);
nlohmann::ordered_json WriteQwen3Moe(const AnyShape& shape);

}  // namespace stringline
