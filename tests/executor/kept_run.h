// All figures of a run's training, kept to compare them with another computation of the same run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/run/run_config.h"
#include "executor/run/train.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct KeptParam {
  std::vector<int64_t> shape;
  std::vector<float> first;              // before the first step
  std::vector<double> gradient;          // for the first step's mean loss, the same in all pipes
  std::vector<std::vector<float>> last;  // after the last step, in every pipe
};

struct KeptRun {
  std::vector<TrainStep> steps;
  // By step: the microbatches, concatenated. Positions are empty where sequences are not packed.
  std::vector<std::vector<int32_t>> tokens, targets, positions;
  std::map<std::string, KeptParam> params;
};

// Trains; the run must succeed.
KeptRun TrainAndKeep(const RunConfig& config, const Plan& lowered, const TrainingData& data);

}  // namespace stringline
