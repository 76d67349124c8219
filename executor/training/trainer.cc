// Prepare makes everything once: groups, in the same order in all processes, then memory, counted
// before any is taken, then an interpreter for each copy of the pipeline. A step only enqueues
// prepared work, so it can be captured and replayed.
#include "executor/training/trainer.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(Plan lowered,
                                                       std::vector<StageProgram> programs,
                                                       const TrainerSettings& settings,
                                                       std::unique_ptr<Backend> backend) {
  SL_ASSIGN_OR_RETURN(
      std::unique_ptr<TrainingJob> job,
      TrainingJob::Make(std::move(lowered), std::move(programs), settings, std::move(backend)));
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(job)));
  SL_RETURN_IF_ERROR(trainer->GiveUp(trainer->Prepare()));
  return trainer;
}

Trainer::Trainer(std::unique_ptr<TrainingJob> job)
    : job_(std::move(job)),
      performs_updates_(HasUpdates(job_->plan())),
      step_(job_->device(), performs_updates_ ? 1 : kPhases, job_->settings().capture),
      targets_(static_cast<size_t>(plan().steps), tokens_per_step()) {}

Trainer::~Trainer() { job_->groups()->TellStates(nullptr); }

absl::Status Trainer::Prepare() {
  // Groups come before the memory count, since communicators take memory.
  pipelines_ = std::make_unique<Pipelines>(job_.get());
  ties_ = std::make_unique<TiedSums>(job_.get(), pipelines_.get());
  if (job_->settings().evaluation) evaluation_ = std::make_unique<Evaluation>(job_.get());
  SL_RETURN_IF_ERROR(job_->groups()->Connect());
  SL_ASSIGN_OR_RETURN(update_, ParameterUpdate::Make(job_.get(), pipelines_.get()));
  SL_RETURN_IF_ERROR(pipelines_->Place());
  if (evaluation_ != nullptr) SL_RETURN_IF_ERROR(evaluation_->Place(*pipelines_));
  SL_RETURN_IF_ERROR(CheckRoom());
  SL_RETURN_IF_ERROR(pipelines_->Prepare([this](int coordinate, StageId stage, int step) {
    return update_->PieceOf(coordinate, stage, step);
  }));
  ties_->Prepare();
  SL_ASSIGN_OR_RETURN(state_, OwnedState::Make(job_.get(), pipelines_.get()));
  SL_ASSIGN_OR_RETURN(norm_, GradientNorm::Make(job_.get(), pipelines_.get(), state_.get()));
  update_->Prepare(state_.get(), norm_.get());
  if (job_->settings().record) StartFlightLog();
  SL_ASSIGN_OR_RETURN(figures_, SharedFigures::Make(job_.get(), pipelines_.get()));
  return evaluation_ == nullptr ? absl::OkStatus() : evaluation_->Prepare();
}

// ResourceExhausted if this process's ranks need more memory than is available at their places.
absl::Status Trainer::CheckRoom() const {
  for (int place = 0; place < job_->device()->places(); ++place) {
    NeededMemory needed = pipelines_->needed(place);
    if (evaluation_ != nullptr) needed.activations += evaluation_->needed(place).all();
    SL_RETURN_IF_ERROR(CheckMemory(needed, job_->backend()->available(place)));
  }
  return absl::OkStatus();
}

std::vector<RankBytes> Trainer::rank_bytes() const {
  std::vector<RankBytes> all = figures_->rank_bytes();
  if (evaluation_ == nullptr) return all;
  for (size_t r = 0; r < all.size(); ++r) {
    all[r].planned += evaluation_->rank_bytes()[r].planned;
    all[r].allocated += evaluation_->rank_bytes()[r].allocated;
  }
  return all;
}

void Trainer::StartFlightLog() {
  std::vector<Recorder*> recorders;
  for (int c = 0; c < mesh().coordinates(); ++c) recorders.push_back(pipelines_->recorder(c));
  flight_.emplace(plan(), std::move(recorders), local(), device());
  job_->groups()->TellStates(&*flight_);
}

absl::Status Trainer::RunPlan() {
  if (flight_) flight_->StartStep(device()->NowNs());
  SL_RETURN_IF_ERROR(GiveUp(step_.Run(kGradients, [this] { pipelines_->EnqueueStep(); })));
  if (world() != nullptr) Say("has computed its gradients, and exchanges losses");
  return figures_->ShareStep();
}

absl::Status Trainer::ComputeGradients() {
  SL_CHECK(!performs_updates_) << "the plan updates its parameters";
  return RunPlan();
}

absl::StatusOr<std::vector<double>> Trainer::PerformSteps(absl::Span<const double> learning_rates) {
  SL_CHECK(performs_updates_) << "the plan updates nothing";
  update_->BeginSteps(learning_rates, targets_);
  SL_RETURN_IF_ERROR(RunPlan());
  SL_ASSIGN_OR_RETURN(const absl::Span<const double> squares, figures_->ShareSquares(*norm_));
  std::vector<double> norms;
  for (int k = 0; k < plan().steps; ++k) {
    if (!std::isfinite(squares[k])) return BadGradient(k, updates() - plan().steps + k + 1);
    norms.push_back(std::sqrt(squares[k]) / static_cast<double>(targets_per_step(k)));
  }
  return norms;
}

absl::StatusOr<double> Trainer::Update(double learning_rate) {
  Say("adds up the squares of its gradients");
  SL_RETURN_IF_ERROR(GiveUp(step_.Run(kSquares, [this] {
    ties_->Enqueue();
    norm_->Enqueue();
  })));
  if (world() != nullptr) Say("exchanges the norms of its gradients");
  SL_ASSIGN_OR_RETURN(const absl::Span<const double> all_squares, figures_->ShareSquares(*norm_));
  const double squares = all_squares[0];
  if (!std::isfinite(squares)) return BadGradient(/*step=*/0, updates() + 1);
  const double norm = update_->Begin(learning_rate, squares, targets_per_step());
  Say("updates its parameters");
  SL_RETURN_IF_ERROR(GiveUp(step_.Run(kUpdate, [this] { update_->Enqueue(); })));
  Say("has updated its parameters");
  return norm;
}

absl::Status Trainer::BadGradient(int step, int64_t number) {
  SL_ASSIGN_OR_RETURN(const GradientNorm::BadGradient mine, norm_->DescribeBadGradient(step));
  SL_ASSIGN_OR_RETURN(const std::string said, figures_->ShareFirst(mine));
  return absl::OutOfRangeError(absl::StrCat("step ", number, ": ", said));
}

absl::Status Trainer::RefreshWorking() {
  for (int c = 0; c < mesh().coordinates(); ++c) {
    SL_RETURN_IF_ERROR(pipelines_->stages(c).params().RefreshWorking(device()));
  }
  update_->EnqueueGathers();
  device()->Submit();
  return GiveUp(device()->Synchronize());
}

}  // namespace stringline
