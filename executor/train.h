// A whole training run: what `stringline run` does between reading its files and printing.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/data.h"
#include "executor/memory_plan.h"
#include "executor/run_config.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"

namespace stringline {

// Where a run stands after a step.
struct TrainProgress {
  int64_t step = 0;  // from 1
  int64_t steps = 0;
  double loss_nats = 0;  // mean per token of this step
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double tokens_per_second = 0;  // since the last report
  double bubble_rate = 0;        // of this step, measured (Bubbles::rate)
  double elapsed_s = 0;
  double left_s = 0;  // estimated from the run so far
};

struct TrainResult {
  int64_t steps = 0;
  int64_t params = 0;
  int64_t tokens_per_step = 0;
  double first_loss_nats = 0;
  double final_loss_nats = 0;       // mean per token of the last steps, a tenth of all
  std::vector<double> losses_nats;  // of every step
  double elapsed_s = 0;
  double tokens_per_second = 0;  // of the whole run
  MemoryPlan memory;
  Timeline measured;            // the last step
  CostModel costs;              // mean costs of the steps before it
  Timeline simulated;           // the last step as the simulator predicts it from these costs
  int measured_steps = 0;       // how many steps gave the costs
  double mean_makespan_ns = 0;  // of these steps
  // How far the prediction of the last step is off: simulated / measured makespan - 1.
  double misprediction = 0;
};

// Trains on `text` with a lowered plan that passes Check. `report` is
// called after the first step, every config.log_every steps and after the last. Errors: a model
// that the plan's stages do not divide, a text too short, a plan that cannot be executed, memory,
// and OutOfRange when the loss is no longer a number.
absl::StatusOr<TrainResult> Train(const RunConfig& config, const Plan& lowered,
                                  absl::string_view text,
                                  const std::function<void(const TrainProgress&)>& report);

}  // namespace stringline
