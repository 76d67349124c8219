// Small models of three families with experts.
#pragma once

#include <vector>

#include "stages/models/decoder.h"

namespace stringline {

inline DecoderShape WithExperts(const MoeShape& moe) {
  return {.layers = 4,
          .width = 20,
          .heads = 2,
          .context = 9,
          .vocabulary = 30,
          .microbatch = 2,
          .kv_heads = 1,
          .head_dim = 6,
          .hidden = moe.first_dense > 0 ? 28 : 0,
          .moe = moe};
}

inline DecoderShape Mixtral() {
  return WithExperts({.experts = 4, .top_k = 2, .expert_hidden = 24, .aux_coefficient = 0.02});
}

// A dense layer first, a shared expert, sigmoid scores with a bias, and groups of experts.
inline DecoderShape DeepSeek() {
  return WithExperts({.experts = 8,
                      .top_k = 3,
                      .expert_hidden = 10,
                      .shared_hidden = 12,
                      .first_dense = 1,
                      .scores = RouterScores::kSigmoid,
                      .scale = 2.5,
                      .groups = 4,
                      .top_groups = 2,
                      .group_best = 2,
                      .balance_rate = 1e-3,
                      .aux_coefficient = 0.5});
}

// Unnormalised weights, a shared expert, and a capacity that drops slots of some tokens.
inline DecoderShape Qwen2Moe() {
  return WithExperts({.experts = 6,
                      .top_k = 2,
                      .expert_hidden = 16,
                      .shared_hidden = 8,
                      .normalise = false,
                      .capacity = 0.7,
                      .overflow = Overflow::kDrop});
}

inline std::vector<DecoderShape> MoeShapes() { return {Mixtral(), DeepSeek(), Qwen2Moe()}; }

}  // namespace stringline
