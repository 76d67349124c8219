// A model of every family, so small that a step takes a moment.
#pragma once

#include "stages/models/model.h"
#include "tests/stages/raised_builder.h"

namespace stringline {

enum class TinyFamily { kGpt, kLlama, kMoe, kDropout };
// The families of a `kind`; a model with dropout is raised from a program.
inline constexpr TinyFamily kTinyFamilies[] = {TinyFamily::kGpt, TinyFamily::kLlama,
                                               TinyFamily::kMoe};
inline const char* NameOf(TinyFamily family) {
  constexpr const char* kNames[] = {"gpt", "llama", "moe", "dropout"};
  return kNames[static_cast<size_t>(family)];
}

inline constexpr int kTinyVocabulary = 64;

inline AnyShape TinyModel(TinyFamily family, int layers) {
  if (family == TinyFamily::kGpt) {
    return GptShape{.layers = layers,
                    .width = 16,
                    .heads = 2,
                    .context = 8,
                    .vocabulary = kTinyVocabulary,
                    .microbatch = 2};
  }
  if (family == TinyFamily::kDropout) return WithDropout(layers, /*vocabulary=*/256, 2);
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
  if (family == TinyFamily::kLlama) {
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
