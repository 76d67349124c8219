// A whole training run: the part of `stringline run` between reading its files and printing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/engine/available_memory.h"
#include "executor/engine/backend.h"
#include "executor/engine/repeated_step.h"
#include "executor/run/run_config.h"
#include "executor/training/data.h"
#include "executor/training/step_history.h"
#include "schedlang/costs/costs.h"
#include "schedlang/memory/memory_plan.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/report/network_time.h"

namespace stringline {

class HeldState;
class Trainer;
class World;

// The numbers that the processes of a run sum up after a step: wishes to end, for a checkpoint and
// for more processes, and the news of a checkpoint under way.
inline constexpr int kWishWords = 6;

// The results of a step.
struct TrainStep {
  int64_t step = 0;      // from 1
  double loss_nats = 0;  // mean per target of this step
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double aux_loss_nats = 0;  // the part of the minimised loss that balances experts, per token
  int64_t dropped = 0;       // slots that no expert took
  std::optional<double> validation_nats;  // the evaluation's behind this step: mean per token
};

// The state of a run after a step.
struct TrainProgress : TrainStep {
  int64_t steps = 0;
  double tokens_per_second = 0;  // since the last report
  double bubble = 0;             // this step's, measured (Bubbles::rate)
  double elapsed_s = 0;
  double left_s = 0;  // estimated from the run so far
};

// The origin of a resumed run, with its earlier history.
struct ResumedRun {
  // The checkpoint's, or words for the memory of a run that healed; "": the run began with its
  // first step.
  std::string folder;
  int64_t step = 0;                  // number of completed steps
  std::vector<std::string> skipped;  // newer checkpoints that are not whole, with the reason
  StepHistory history;
};

// Callbacks of a run, called from the thread that called Train; all may be empty. Steps are counted
// from 1.
struct TrainHooks {
  // Once, when everything is ready and before the first step. An error ends the run.
  std::function<absl::Status(Trainer& trainer)> start;
  // Once, after `start`, where a checkpoint was resumed. An error ends the run.
  std::function<absl::Status(const ResumedRun& resumed)> resumed;
  // After the first step, every config.log_every steps, with every evaluation and after the last;
  // in process 0 alone.
  std::function<void(const TrainProgress&)> report;
  // Every step of a plan without UPDATE, after the gradients and before the update: sums over the
  // step's tokens, the same in every copy of a stage.
  std::function<void(int64_t step, Trainer& trainer)> gradients;
  // Every step, after the update, or after all steps of a plan that performs several at once; the
  // gradients are zero again. An error ends the run.
  std::function<absl::Status(const TrainStep& step, Trainer& trainer)> after_step;
  // Asked after every run of the plan but the last: true ends the run at this step.
  std::function<bool()> stop;
  // Asked with it: true takes a checkpoint behind this step, if the run takes some.
  std::function<bool()> checkpoint;
  // Asked with it where the state is held: true ends this part of the run, which goes on with other
  // processes (`change`).
  std::function<bool()> grows;
  // Once in all processes, if any has answered so: they agree on how the run goes on.
  std::function<absl::Status(int64_t step, World* world)> change;
  // Once, after an error of a step or of a hook; returns the error to report instead.
  std::function<absl::Status(const absl::Status& error, Trainer& trainer)> failed;
  // Once, after the last step, also where `stop` ended the run; not after an error.
  std::function<absl::Status(int64_t step, Trainer& trainer)> end;
  // Last, before the trainer is destroyed.
  std::function<void()> leave;
  // Not called: takes the state every config.heal_every steps, and gives it back where the run goes
  // on from it (HeldState::goes_on); there if config.heal_every is.
  HeldState* held = nullptr;
};

// Evaluations between steps, and the data that they read.
struct EvaluationOfRun {
  Plan plan;  // lowered, forward only, and checked (TrainerSettings::evaluation)
  TrainingData data;
};

// The loss on all sequences of an evaluation.
struct Evaluated {
  double loss_nats = 0;  // mean per token
  int64_t sequences = 0;
  int64_t step = 0;  // the steps that trained the parameters, as far as known
};

// The time of a whole step, including its data and its update.
struct StepTime {
  int64_t wall_ns = 0;
  int64_t processor_ns = 0;  // in this process
};

struct TrainResult {
  // Done, in all where a checkpoint was resumed; fewer than config.steps where `stop` ended the
  // run.
  int64_t steps = 0;
  bool stopped = false;
  bool changes = false;  // the run goes on with other processes (TrainHooks::change)
  // False: a checkpoint of the last step was resumed, and only saved.
  bool trained() const { return steps > resumed.step; }
  int64_t params = 0;
  int64_t tokens_per_step = 0;
  double first_loss_nats = 0;
  double final_loss_nats = 0;          // mean per token of the last steps, a tenth of all
  std::vector<double> losses_nats;     // for every step, also those before a checkpoint
  std::vector<Evaluated> evaluations;  // of this run; `step` is the one behind which they were
  ResumedRun resumed;                  // without its history
  std::string checkpoint;              // this run's last; "": none
  double elapsed_s = 0;
  double tokens_per_second = 0;  // over the whole run
  MemoryPlan memory;
  std::vector<RankBytes> rank_bytes;  // all ranks of the mesh, coordinate by coordinate
  double aux_loss_nats = 0;           // the last step's (TrainStep)
  int64_t dropped = 0;                // slots that no expert took, over all steps
  HostTime host;                      // whole steps
  std::vector<StepTime> step_times;   // every step of this run
  std::string not_captured;           // why steps were not, although they should be; or ""
  // Empty after a stop, and where nothing was trained:
  Timeline measured;  // the last step, of the mesh's coordinate 0
  // The all-to-alls of a step of coordinate 0, summed over its ranks: the mean over the steps that
  // gave the costs.
  NetworkSums network;
  CostModel costs;     // typical costs of earlier steps (MeasuredCosts)
  Timeline simulated;  // the simulator's prediction of the last step from these costs
  std::vector<int64_t> makespans_ns;  // of the steps behind the costs
  // The error of the prediction of the last step: simulated / measured makespan - 1.
  double misprediction = 0;
};

// Trains on a backend (null: the CPU's), on `data`, with a lowered plan that passes Check, from the
// parameters of config.model_folder, or first values drawn from the seed; or resumes from a
// checkpoint (config.resume). Takes checkpoints as in config.checkpoint, and one more if `stop`
// ends the run. Errors: those of checkpoint/checkpoints.h and resume.h, of the folder, a model that
// the plan's stages do not divide, data too short, a token outside the vocabulary, a plan that
// cannot be executed, missing memory or threads, OutOfRange when the loss or a gradient is not
// finite, and the errors of the hooks.
// `evaluation` is there if config.evaluate asks for some.
absl::StatusOr<TrainResult> Train(const RunConfig& config, const Plan& lowered,
                                  const TrainingData& data, const TrainHooks& hooks,
                                  std::unique_ptr<Backend> backend = nullptr,
                                  const std::optional<EvaluationOfRun>& evaluation = {});

// Evaluates the parameters with which such a training would begin, once, and trains nothing. Calls
// the hooks `start`, `resumed` and `failed`.
absl::StatusOr<Evaluated> Evaluate(const RunConfig& config, const Plan& lowered,
                                   const TrainHooks& hooks, std::unique_ptr<Backend> backend,
                                   const EvaluationOfRun& evaluation);

}  // namespace stringline
