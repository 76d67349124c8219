// A training run on the GPU, on random data, timed step by step.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "executor/run/run_config.h"
#include "executor/run/train.h"
#include "schedlang/plan/plan.h"

namespace stringline {

struct GpuRun {
  TrainResult result;
  int64_t step_ns = 0;  // the median of the steps after the third, updates included
  std::string kernels;  // the algorithms chosen for them: Kernels::Describe

  double tokens_per_second() const {
    return static_cast<double>(result.tokens_per_step) / (static_cast<double>(step_ns) * 1e-9);
  }
};

// Data for a run. Random bytes: products of zeros would run faster than a model's.
std::string RandomText(size_t bytes);

// `config` has the model, the number of steps (at least 4), the mesh, the link, the GPUs, and the
// choice of capture.
absl::StatusOr<GpuRun> TrainOnGpu(const RunConfig& config, const Plan& plan);

}  // namespace stringline
