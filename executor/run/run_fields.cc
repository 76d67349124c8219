#include "executor/run/run_fields.h"

#include "schedlang/costs/model_keys.h"

namespace stringline {

std::vector<Field> FieldsOf(GptShape* shape) {
  return {{model_key::kLayers, &shape->layers, 1, kMostCount},
          {model_key::kWidth, &shape->width, 1, kMostCount},
          {model_key::kHeads, &shape->heads, 1, kMostCount},
          {model_key::kContext, &shape->context, 1, kMostCount},
          {model_key::kVocabulary, &shape->vocabulary, 1, kMostCount, false},
          {model_key::kTied, &shape->tied, 0, 0, false},
          {model_key::kSkips, &shape->skips, 0, 0, false}};
}

std::vector<Field> FieldsOf(DecoderShape* shape) {
  return {{model_key::kLayers, &shape->layers, 1, kMostCount},
          {model_key::kWidth, &shape->width, 1, kMostCount},
          {model_key::kHeads, &shape->heads, 1, kMostCount},
          {model_key::kKvHeads, &shape->kv_heads, 1, kMostCount, false},
          {model_key::kHeadDim, &shape->head_dim, 1, kMostCount, false},
          {model_key::kHidden, &shape->hidden, 1, kMostCount},
          {model_key::kContext, &shape->context, 1, kMostCount},
          {model_key::kVocabulary, &shape->vocabulary, 1, kMostCount, false},
          {model_key::kTheta, &shape->rope_theta, 1, 1e12, false},
          {model_key::kEpsilon, &shape->norm_epsilon, 1e-12, 1, false},
          {model_key::kStddev, &shape->init_stddev, 1e-6, 10, false},
          {model_key::kQkvBias, &shape->qkv_bias, 0, 0, false},
          {model_key::kQkNorm, &shape->qk_norm, 0, 0, false},
          {model_key::kTied, &shape->tied, 0, 0, false}};
}

std::vector<Field> FieldsOf(EncoderDecoderShape* shape) {
  return {{model_key::kLayers, &shape->layers, 2, kMostCount},
          {model_key::kEncoderLayers, &shape->encoder_layers, 1, kMostCount},
          {model_key::kWidth, &shape->width, 1, kMostCount},
          {model_key::kHeads, &shape->heads, 1, kMostCount},
          {model_key::kContext, &shape->context, 2, kMostCount},
          {model_key::kSource, &shape->source, 1, kMostCount},
          {model_key::kVocabulary, &shape->vocabulary, 1, kMostCount, false}};
}

std::vector<Field> FieldsOf(MoeShape* moe, std::string* scores, std::string* capacity,
                            std::string* exceeded) {
  return {{model_key::kExperts, &moe->experts, 1, kMostCount},
          {model_key::kTopK, &moe->top_k, 1, kMostCount},
          {model_key::kExpertHidden, &moe->expert_hidden, 1, kMostCount},
          {model_key::kSharedHidden, &moe->shared_hidden, 0, kMostCount, false},
          {model_key::kFirstDense, &moe->first_dense, 0, kMostCount, false},
          {model_key::kScores, scores, 0, 0, false},
          {model_key::kNormalise, &moe->normalise, 0, 0, false},
          {model_key::kScale, &moe->scale, 1e-6, 1e6, false},
          {model_key::kGroups, &moe->groups, 1, kMostCount, false},
          {model_key::kTopGroups, &moe->top_groups, 1, kMostCount, false},
          {model_key::kGroupBest, &moe->group_best, 1, kMostCount, false},
          {model_key::kBalanceRate, &moe->balance_rate, 0, 1, false},
          {model_key::kAuxCoefficient, &moe->aux_coefficient, 0, 100, false},
          {model_key::kCapacity, capacity, 0, 0, false},
          {model_key::kExceeded, exceeded, 0, 0, false}};
}

}  // namespace stringline
