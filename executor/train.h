// A whole training run: what `stringline run` does between reading its files and printing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/available_memory.h"
#include "executor/backend.h"
#include "executor/data.h"
#include "executor/repeated_step.h"
#include "executor/run_config.h"
#include "executor/step_history.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/sim/network_time.h"
#include "schedlang/timeline.h"

namespace stringline {

class Trainer;

// What a step gave.
struct TrainStep {
  int64_t step = 0;      // from 1
  double loss_nats = 0;  // mean per token of this step
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double aux_loss_nats = 0;  // the balance losses, per token, that are part of what is descended
  int64_t dropped = 0;       // slots that no expert took
};

// Where a run stands after a step.
struct TrainProgress : TrainStep {
  int64_t steps = 0;
  double tokens_per_second = 0;  // since the last report
  double bubble = 0;             // of this step, measured (Bubbles::rate)
  double elapsed_s = 0;
  double left_s = 0;  // estimated from the run so far
};

// Where a run went on, and what it was before.
struct ResumedRun {
  std::string folder;                // of the checkpoint; "": the run began with its first step
  int64_t step = 0;                  // so many were done
  std::vector<std::string> skipped;  // newer checkpoints that are not whole: why
  StepHistory history;
};

// What is called during a run, each from the thread that called Train; all may be empty. Steps are
// counted from 1.
struct TrainHooks {
  // Once, when everything is ready and before the first step. An error ends the run.
  std::function<absl::Status(Trainer& trainer)> start;
  // Once, after `start`, where a checkpoint was resumed. An error ends the run.
  std::function<absl::Status(const ResumedRun& resumed)> resumed;
  // After the first step, every config.log_every steps and after the last.
  std::function<void(const TrainProgress&)> report;
  // Every step, when all gradients are there and before the update: sums over the step's tokens,
  // the same in every copy of a stage.
  std::function<void(int64_t step, Trainer& trainer)> gradients;
  // Every step, after the update; the gradients are zero again. An error ends the run.
  std::function<absl::Status(const TrainStep& step, Trainer& trainer)> after_step;
  // Asked after every step but the last: true ends the run there.
  std::function<bool()> stop;
  // Once, after an error of a step or of a hook, with what it is; returns what is told instead.
  std::function<absl::Status(const absl::Status& error, Trainer& trainer)> failed;
  // Once, after the last step, also where `stop` ended the run; not after an error.
  std::function<absl::Status(int64_t step, Trainer& trainer)> end;
};

// What a whole step took, its data and its update included.
struct StepTime {
  int64_t wall_ns = 0;
  int64_t processor_ns = 0;  // of this process
};

struct TrainResult {
  // Done, in all where a checkpoint was resumed; fewer than config.steps where `stop` ended the
  // run.
  int64_t steps = 0;
  bool stopped = false;
  int64_t params = 0;
  int64_t tokens_per_step = 0;
  double first_loss_nats = 0;
  double final_loss_nats = 0;       // mean per token of the last steps, a tenth of all
  std::vector<double> losses_nats;  // of every step, also of those before a checkpoint
  ResumedRun resumed;               // without its history
  std::string checkpoint;           // the last one that this run took; "": none
  double elapsed_s = 0;
  double tokens_per_second = 0;  // of the whole run
  MemoryPlan memory;
  std::vector<RankBytes> rank_bytes;  // of all ranks of the mesh, coordinate by coordinate
  double aux_loss_nats = 0;           // the last step's (TrainStep)
  int64_t dropped = 0;                // slots that no expert took, of all steps
  HostTime host;                      // of whole steps
  std::vector<StepTime> step_times;   // of every step of this run
  std::string not_captured;           // why steps were not, although they should be; or ""
  // What follows is empty after a stop.
  Timeline measured;            // the last step, of the mesh's coordinate 0
  NetworkTimes network;         // how much of its all-to-alls is hidden
  CostModel costs;              // mean costs of the steps before it
  Timeline simulated;           // the last step as the simulator predicts it from these costs
  int measured_steps = 0;       // how many steps gave the costs
  double mean_makespan_ns = 0;  // of these steps
  // How far the prediction of the last step is off: simulated / measured makespan - 1.
  double misprediction = 0;
};

// Trains on a backend (null: the CPU's), on `data`, with a lowered plan that passes Check, from the
// parameters of config.model_folder, or first values drawn from the seed; or goes on from a
// checkpoint (config.resume). Takes checkpoints as config.checkpoint says, and one where `stop`
// ends the run. Errors: those of checkpoint/checkpoints.h and resume.h, those of the
// folder, a model that the plan's stages do not divide, data too short, a token outside the
// vocabulary, a plan that cannot be executed, memory or threads that are not there, OutOfRange when
// the loss or a gradient is no longer a number, and what the hooks return.
absl::StatusOr<TrainResult> Train(const RunConfig& config, const Plan& lowered,
                                  const TrainingData& data, const TrainHooks& hooks,
                                  std::unique_ptr<Backend> backend = nullptr);

}  // namespace stringline
