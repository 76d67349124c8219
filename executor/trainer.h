// Trains a model cut into stages with any plan, on the ranks of one process.
//
// A step: fill in the data, ComputeGradients (the pipeline runs once), Update. Losses and gradients
// are sums over the step's tokens; Update divides once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/cpu/device.h"
#include "executor/cpu/stages.h"
#include "executor/interpreter.h"
#include "executor/optimizer.h"
#include "executor/recorder.h"
#include "executor/threads/transport.h"
#include "schedlang/plan.h"
#include "schedlang/timeline.h"
#include "stages/stage_program.h"

namespace stringline {

struct TrainerSettings {
  uint64_t seed = 0;   // of the parameters' first values
  int threads = 0;     // that run work; 0: one for every compute lane, at most one for every core
  bool record = true;  // timestamps of every action
  AdamW optimizer;
  double clip_norm = 1;  // of the mean gradient over all stages; 0: no clipping
};

class Trainer {
 public:
  // FailedPrecondition for a plan that cannot be executed, ResourceExhausted where memory or
  // threads are not there. All memory is counted before any is taken.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(Plan lowered,
                                                       std::vector<StageProgram> programs,
                                                       const TrainerSettings& settings);

  absl::Span<int32_t> tokens(MicrobatchId microbatch) { return stages_->tokens(microbatch); }
  absl::Span<int32_t> targets(MicrobatchId microbatch) { return stages_->targets(microbatch); }

  // Runs the plan once; gradients are added to what is there. Errors as Device::Synchronize.
  absl::Status ComputeGradients();

  // Sum over the step's tokens, added up in the order of the microbatches.
  double loss_sum() const;
  int64_t tokens_per_step() const;

  // Clips, updates every parameter and sets the gradients to zero. Returns the global norm of the
  // mean gradient before clipping: the same sum in the same order for every cut of the model.
  // OutOfRange, with every parameter as it was, when a gradient is not finite: the message names
  // the first one in the order of the model.
  absl::StatusOr<double> Update(double learning_rate);

  absl::Span<float> param(StageId stage, int index) {
    return View(stages_->params(stage), stage, index);
  }
  absl::Span<float> grad(StageId stage, int index) {
    return View(stages_->grads(stage), stage, index);
  }

  const Plan& plan() const { return plan_; }
  absl::Span<const StageProgram> programs() const { return programs_; }
  const MemoryPlan& memory() const { return stages_->memory(); }
  // The last step as it happened; needs settings.record.
  Timeline Measured() const { return recorder_->Measured(plan_); }

 private:
  Trainer(Plan lowered, std::vector<StageProgram> programs, const TrainerSettings& settings);
  absl::Status Prepare();
  // Runs `phase` for every stage on its rank's compute stream.
  absl::Status ForEveryStage(void (*phase)(const void* trainer, int64_t stage));
  void SumReplicas(StageId stage);  // of the first pipe
  StageId Replica(StageId stage, size_t pipe) const;
  absl::Status BadGradient();
  void SumStage(StageId stage);
  void UpdateStage(StageId stage);
  absl::Span<float> View(float* block, StageId stage, int index) const;

  const Plan plan_;
  const std::vector<StageProgram> programs_;
  const TrainerSettings settings_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<ThreadTransport> transport_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<cpu::Stages> stages_;
  std::unique_ptr<Interpreter> interpreter_;
  std::vector<float*> moments1_;  // by stage, laid out as the parameters
  std::vector<float*> moments2_;
  std::vector<std::vector<double>> squares_;  // by stage and parameter
  int64_t updates_ = 0;
  double update_rate_ = 0;  // of the update under way
  double update_scale_ = 1;
};

}  // namespace stringline
