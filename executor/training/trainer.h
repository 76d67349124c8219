// Trains a model cut into stages with any plan, on the ranks of this process: all ranks, or those
// assigned by a World. Then every process makes the same calls in the same order, and has the same
// losses and norms; times of all ranks come to process 0 where GatherTimes asks for them.
//
// A step: fill in the data, ComputeGradients (every copy of the pipeline runs once, and gradients
// are summed over all copies of a stage), Update. Losses and gradients are sums over the step's
// targets; Update divides once. The step's microbatches are those of coordinate 0 of the mesh, then
// those of coordinate 1, and so on.
//
// A plan with UPDATEs performs all of its steps, and updates each stage where its order says so:
// fill in the data of every step, then PerformSteps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/engine/flight_log.h"
#include "executor/engine/repeated_step.h"
#include "executor/engine/when_ready.h"
#include "executor/training/evaluation.h"
#include "executor/training/gradient_norm.h"
#include "executor/training/owned_state.h"
#include "executor/training/parameter_update.h"
#include "executor/training/pipelines.h"
#include "executor/training/shared_figures.h"
#include "executor/training/tied_sums.h"
#include "executor/training/training_job.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "stages/stage_program.h"

namespace stringline {

class Trainer {
 public:
  // FailedPrecondition for a plan that cannot be executed, ResourceExhausted if memory or threads
  // are short, Unimplemented, with its name, for an op without a kernel in the backend. All memory
  // is counted before any is taken. The default backend is the CPU's, the only user of the settings
  // `threads` and `link`.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(Plan lowered,
                                                       std::vector<StageProgram> programs,
                                                       const TrainerSettings& settings,
                                                       std::unique_ptr<Backend> backend = nullptr);
  ~Trainer();

  int32_t microbatches() const {
    return plan().microbatches / plan().steps / plan().slices * mesh().coordinates();
  }
  // `microbatch` counts in its step of the plan.
  absl::Span<int32_t> tokens(MicrobatchId microbatch, int step = 0) {
    return pipelines_->tokens(step, microbatch);
  }
  absl::Span<int32_t> targets(MicrobatchId microbatch, int step = 0) {
    return pipelines_->targets(step, microbatch);
  }

  // Each token's position in its document, for packed sequences; empty for others.
  absl::Span<int32_t> positions(MicrobatchId microbatch, int step = 0) {
    return pipelines_->positions(step, microbatch);
  }
  // The key of dropout's masks in a microbatch of the training; at first seed and sample are 0. An
  // evaluation has no dropout.
  void SetMaskKey(MicrobatchId microbatch, const MaskKey& key, int step = 0) {
    pipelines_->SetMaskKey(step, microbatch, key);
  }
  // The targets of a step in all processes, without kNoTarget: the number that Update divides by.
  // At first every token has one.
  void SetTargets(int64_t count, int step = 0) { targets_[static_cast<size_t>(step)] = count; }
  int64_t targets_per_step(int step = 0) const { return targets_[static_cast<size_t>(step)]; }

  // True if the plan has UPDATEs.
  bool performs_updates() const { return performs_updates_; }
  // Runs a plan without UPDATE once. The gradients must be zero, as they are at first and after
  // Update. Errors as Device::Synchronize and World::Exchange.
  absl::Status ComputeGradients();
  // Runs a plan with UPDATEs once, with a learning rate for each of its steps. Returns the steps'
  // norms, as Update. OutOfRange, behind all of its updates, if a gradient was not finite.
  absl::StatusOr<std::vector<double>> PerformSteps(absl::Span<const double> learning_rates);
  // Null without TrainerSettings::evaluation.
  Evaluation* evaluation() { return evaluation_.get(); }
  // Statistics on captured and issued steps.
  const RepeatedStep& repeated_step() const { return step_; }

  // The sum over the tokens of a step of the plan (StepSums).
  double loss_sum(int step = 0) const { return figures_->loss_sum(step); }
  // Sums over the step's microbatches and the model's mixtures of experts: balance losses, and the
  // number of slots dropped by full experts.
  double aux_loss_sum(int step = 0) const { return figures_->balance_loss_sum(step); }
  int64_t dropped(int step = 0) const { return figures_->dropped(step); }
  int64_t tokens_per_step() const {
    const int64_t pieces = int64_t{plan().chunks} * plan().slices;
    return int64_t{microbatches()} * pieces * programs().back().target.elements();
  }

  // Clips, updates every parameter and sets the gradients to zero. Returns the global norm of the
  // mean gradient before clipping: the same for every cut of the model.
  // OutOfRange, with every parameter unchanged, if a gradient is not finite: the message names the
  // first such gradient in the order of the model.
  absl::StatusOr<double> Update(double learning_rate);

  // In the device's memory, of a rank in this process; F32 also for parameters that graphs read as
  // BF16: after writing, call RefreshWorking before the next step. All coordinates hold the same,
  // except pieces of experts' parameters. Sharded gradients are sums only in the blocks that the
  // coordinate owns; for sharded parameters use OwnedBlocks.
  absl::Span<float> param(StageId stage, int index, int coordinate = 0) {
    SL_CHECK(sharing().sharding != Sharding::kParameters) << "no copy has whole parameters";
    return pipelines_->stages(coordinate).params().param(stage, index);
  }
  absl::Span<float> grad(StageId stage, int index, int coordinate = 0) {
    return pipelines_->stages(coordinate).params().grad(stage, index);
  }

  // The blocks that a coordinate updates of a stage in this process, and the stage's cut.
  std::vector<OwnedBlock> OwnedBlocks(StageId stage, int coordinate) const {
    return pipelines_->stages(coordinate).params().OwnedBlocks(stage);
  }
  const StatePieces& pieces(StageId stage) const { return pipelines_->stages(0).pieces(stage); }
  int64_t buckets(StageId stage) const { return pipelines_->stages(0).buckets(stage); }
  StateSharing sharing() const { return job_->sharing(); }

  // StageParams::RefreshWorking on all coordinates; copies that keep whole parameters but shard
  // their state get them from their owners. All processes call it.
  absl::Status RefreshWorking();

  // The state of this process's ranks: with the other processes' pieces every value of every
  // parameter, some more than once. After writing, call RefreshWorking. Between steps.
  std::vector<StatePiece> LocalState() const { return state_->Pieces(); }
  // The number of updates, which AdamW needs to correct the moments.
  int64_t updates() const { return update_->updates(); }
  void SetUpdates(int64_t updates) { update_->SetUpdates(updates); }

  // True if this process holds the stage's rank at the coordinate.
  bool holds(StageId stage, int coordinate) const { return job_->holds(stage, coordinate); }
  // Ends this process's part of the run and tells the other processes. Returns the cause that all
  // of them agree on (Groups::Agree), if the failure was not this process's alone.
  absl::Status GiveUp(absl::Status status) { return job_->GiveUp(std::move(status)); }
  // The last commands of the ranks; null without settings.record.
  const FlightLog* flight() const { return flight_ ? &*flight_ : nullptr; }
  const LocalRanks& local() const { return job_->local(); }
  // Null if this process holds all ranks.
  World* world() { return job_->world(); }
  Groups* groups() { return job_->groups(); }
  Device* device() { return job_->device(); }
  // The choices of its kernels: Kernels::Describe.
  std::string DescribeKernels() const { return job_->kernels()->Describe(); }
  // The resources of its communicators: Groups::Describe.
  std::string DescribeGroups() const { return job_->groups()->Describe(); }
  // The places of the mesh's ranks: Backend::DescribePlaces.
  std::string DescribePlaces() const { return job_->backend()->DescribePlaces(); }
  const Plan& plan() const { return job_->plan(); }
  const Wiring& links() const { return job_->links(); }
  const Mesh& mesh() const { return job_->mesh(); }
  absl::Span<const StageProgram> programs() const { return job_->programs(); }
  // Places of the values of coordinate 0's ranks in this process.
  const MemoryPlan& memory() const { return pipelines_->stages(0).memory(); }
  // All ranks: those of coordinate 0, then those of coordinate 1, and so on. With evaluations. The
  // bytes of other processes' ranks only process 0 knows.
  std::vector<RankBytes> rank_bytes() const;
  // Brings the times of the last step of all ranks to process 0; others know those of their own
  // ranks. All processes call it, between steps. Errors as World::Exchange.
  absl::Status GatherTimes() { return figures_->GatherTimes(); }
  // The last step of a coordinate as observed, and as rewritten by when_ready.h; both need
  // settings.record, and all ranks' times.
  Timeline Observed(int coordinate = 0) const {
    return pipelines_->recorder(coordinate)->Observed(plan());
  }
  Timeline Measured(int coordinate = 0) const {
    return WhenReady(plan(), job_->links(), Observed(coordinate));
  }

 private:
  explicit Trainer(std::unique_ptr<TrainingJob> job);
  absl::Status Prepare();
  absl::Status CheckRoom() const;
  void StartFlightLog();
  // Runs the plan's commands, and shares its results.
  absl::Status RunPlan();
  // In a step of the plan, which is the training's step `number`.
  absl::Status BadGradient(int step, int64_t number);
  void Say(const char* doing) {
    if (flight_) flight_->Say(doing);
  }

  const std::unique_ptr<TrainingJob> job_;
  const bool performs_updates_;
  // In the order in which they are made, each from those before it.
  std::unique_ptr<Pipelines> pipelines_;
  std::unique_ptr<TiedSums> ties_;
  std::unique_ptr<Evaluation> evaluation_;  // null: none
  std::unique_ptr<ParameterUpdate> update_;
  std::unique_ptr<OwnedState> state_;
  std::unique_ptr<GradientNorm> norm_;
  std::unique_ptr<SharedFigures> figures_;
  std::optional<FlightLog> flight_;  // of settings.record
  // A step's phases. The host reads the loss after the gradients, and the norm after the squares. A
  // plan with UPDATEs has the first phase only.
  enum Phase { kGradients, kSquares, kUpdate, kPhases };
  RepeatedStep step_;
  std::vector<int64_t> targets_;  // by step of the plan
};

}  // namespace stringline
