// The runs that are also computed in other ways: plainly in double precision, and by torch.
#pragma once

#include <cstdint>
#include <string>

#include "executor/run/run_config.h"
#include "tests/executor/plain_training.h"

namespace stringline {

inline constexpr int kReferenceMicrobatches = 4;

// All 256 bytes, with unequal frequencies, so that a model can learn.
inline std::string ReferenceText() {
  std::string text;
  uint32_t state = 12345;
  while (text.size() < 5000) {
    state = state * 1664525 + 1013904223;
    const uint32_t draw = state >> 16;
    text.push_back(static_cast<char>(draw % 4 != 0 ? 'a' + draw % 11 : draw / 4 % 256));
  }
  return text;
}

// The norms lie on both sides of the clipping, and an odd context crosses every block of attention.
inline RunConfig LongRun() {
  RunConfig config;
  config.shape = GptShape{.layers = 3, .width = 24, .heads = 3, .context = 131, .microbatch = 2};
  config.steps = 10;
  config.warmup_steps = 3;
  config.final_rate = 2e-3;
  config.optimizer = {.learning_rate = 1e-2, .weight_decay = 0.3};
  config.clip_norm = 0.95;
  config.seed = 11;
  return config;
}

// Another value of every setting, and no clipping.
inline RunConfig OtherRun() {
  RunConfig config;
  config.shape = GptShape{.layers = 2, .width = 20, .heads = 2, .context = 37, .microbatch = 3};
  config.steps = 7;
  config.warmup_steps = 1;
  config.final_rate = 0;
  config.optimizer = {
      .learning_rate = 4e-3, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 1.5};
  config.clip_norm = 0;
  config.seed = 987654321;
  return config;
}

// The plain computation of a run.
inline plain::Settings SettingsOf(const RunConfig& config) {
  const GptShape& shape = std::get<GptShape>(config.shape.family);
  const AdamW& adam = config.optimizer;
  return {.layers = shape.layers,
          .width = shape.width,
          .heads = shape.heads,
          .context = shape.context,
          .vocabulary = shape.vocabulary,
          .sequences = shape.microbatch,
          .microbatches = kReferenceMicrobatches,
          .steps = config.steps,
          .warmup_steps = config.warmup_steps,
          .learning_rate = adam.learning_rate,
          .final_rate = config.final_rate,
          .beta1 = adam.beta1,
          .beta2 = adam.beta2,
          .epsilon = adam.epsilon,
          .weight_decay = adam.weight_decay,
          .clip_norm = config.clip_norm,
          .seed = config.seed};
}

}  // namespace stringline
