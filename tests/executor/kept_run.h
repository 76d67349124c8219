// All that a run tells about its training, kept for whoever computes the same run another way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/run_config.h"
#include "executor/train.h"
#include "schedlang/plan.h"

namespace stringline {

struct KeptParam {
  std::vector<int64_t> shape;
  std::vector<float> first;              // before the first step
  std::vector<double> gradient;          // of the first step's mean loss, the same in all pipes
  std::vector<std::vector<float>> last;  // after the last step, in every pipe
};

struct KeptRun {
  std::vector<TrainStep> steps;
  // By step: all microbatches', one after the other.
  std::vector<std::vector<int32_t>> tokens, targets;
  std::map<std::string, KeptParam> params;
};

// Trains; the run must succeed.
KeptRun TrainAndKeep(const RunConfig& config, const Plan& lowered, const std::string& text);

}  // namespace stringline
