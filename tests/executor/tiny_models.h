// A model of every family, so small that a step takes a moment.
#pragma once

#include "stages/models/model.h"

namespace stringline {

enum class Family { kGpt, kLlama, kMoe };
inline constexpr Family kFamilies[] = {Family::kGpt, Family::kLlama, Family::kMoe};
inline const char* NameOf(Family family) {
  return family == Family::kGpt ? "gpt" : family == Family::kLlama ? "llama" : "moe";
}

inline constexpr int kTinyVocabulary = 64;

inline AnyShape TinyModel(Family family, int layers) {
  if (family == Family::kGpt) {
    return GptShape{.layers = layers,
                    .width = 16,
                    .heads = 2,
                    .context = 8,
                    .vocabulary = kTinyVocabulary,
                    .microbatch = 2};
  }
  DecoderShape shape;
  shape.layers = layers;
  shape.width = 16;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.hidden = 24;
  shape.context = 8;
  shape.vocabulary = kTinyVocabulary;
  shape.microbatch = 2;
  if (family == Family::kLlama) {
    shape.tied = true;
    return shape;
  }
  shape.moe.experts = 8;
  shape.moe.top_k = 2;
  shape.moe.expert_hidden = 12;
  shape.moe.shared_hidden = 8;
  shape.moe.balance_rate = 1e-3;
  shape.moe.aux_coefficient = 0.01;
  return shape;
}

}  // namespace stringline
