// A model of a few thousand parameters and a text for it.
#pragma once

#include <string>

#include "executor/run/run_config.h"

namespace stringline {

inline std::string Corpus() {
  std::string text;
  for (int i = 0; text.size() < 4000; ++i) {
    text += "the quick brown fox number " + std::to_string(i * 7919 % 101) + " jumps. ";
  }
  return text;
}

// The sizes of a run of GPT.
inline GptShape& GptOf(RunConfig& config) { return std::get<GptShape>(config.shape.family); }
inline const GptShape& GptOf(const RunConfig& config) {
  return std::get<GptShape>(config.shape.family);
}

inline RunConfig SmallRun(int64_t steps) {
  RunConfig config;
  config.shape = GptShape{.layers = 8, .width = 16, .heads = 2, .context = 16, .microbatch = 2};
  config.steps = steps;
  config.optimizer.learning_rate = 3e-3;
  config.seed = 5;
  return config;
}

}  // namespace stringline
