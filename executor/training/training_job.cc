#include "executor/training/training_job.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "schedlang/base/status.h"
#include "stages/split.h"

namespace stringline {
namespace {

// Copies of the pipeline and replicas of a stage sum their gradients, which the plan has to list: a
// plan runs as it was checked.
absl::Status CheckSums(const Plan& lowered, const Mesh& mesh) {
  if (mesh.coordinates() == 1 && lowered.pipes.size() < 2) return absl::OkStatus();
  std::vector<bool> is_summed(lowered.stages.size(), false);
  for (const Action& action : lowered.actions) {
    if (action.kind == ActionKind::kReduceGrad) is_summed[action.stage.value] = true;
  }
  for (const Action& action : lowered.actions) {
    if (!IsCompute(action.kind) || is_summed[action.stage.value]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has no ", PrintStage(lowered.pipes, action.stage),
                     "REDUCE_GRAD, which sums the gradients of ",
                     mesh.coordinates() == 1 ? "its replicas" : "the copies of the pipeline",
                     "; LoweredPlan (schedlang/ask) adds it before the check"));
  }
  return absl::OkStatus();
}

// An UPDATE updates its stage when the order says so: before the norm of all gradients is known,
// and by the rank alone.
absl::Status CheckUpdates(const Plan& plan, absl::Span<const StageProgram> programs,
                          const TrainerSettings& settings) {
  const auto update = std::find_if(plan.actions.begin(), plan.actions.end(),
                                   [](const Action& a) { return a.kind == ActionKind::kUpdate; });
  if (update == plan.actions.end()) return absl::OkStatus();
  const auto refuse = [&](const std::string& text) {
    return absl::FailedPreconditionError(absl::StrCat(PrintWithLine(plan, *update), ": ", text));
  };
  if (settings.clip_norm > 0) {
    return refuse(absl::StrCat(
        "an update inside the plan comes before the norm of all gradients is known, so they cannot "
        "be clipped to a norm of ",
        settings.clip_norm, "; a clip_norm of 0 would help"));
  }
  for (const StageProgram& program : programs) {
    for (const Param& param : program.params) {
      if (param.tied_to.empty()) continue;
      return refuse(absl::StrCat("the gradients of ", param.name, " and ", param.tied_to,
                                 ", which are tied, are summed behind a whole step; a model "
                                 "without tied parameters would help"));
    }
  }
  const Sharding sharding = settings.sharding;
  if (sharding == Sharding::kParameters && plan.versions > 1) {
    return refuse("with 'sharding: parameters' a stage has one version of its weights");
  }
  if (!plan.pipes.empty() &&
      (sharding == Sharding::kOptimizer || sharding == Sharding::kGradients)) {
    return refuse(
        "with this sharding, ranks of several pipes would gather updated parameters in different "
        "orders; 'sharding: none' or 'parameters' would help");
  }
  return absl::OkStatus();
}

absl::Status CheckTrains(const Plan& plan) {
  if (!plan.forward_only) return absl::OkStatus();
  return absl::InvalidArgumentError("the plan is forward only: no training");
}

// An evaluation reads the parameters where the training has them.
absl::Status CheckEvaluation(const Plan& plan, const std::optional<Plan>& evaluation) {
  if (!evaluation) return absl::OkStatus();
  const auto refuse = [&](const std::string& text) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluations with ", evaluation->schedule, ": ", text));
  };
  if (!evaluation->forward_only) return refuse("the schedule has backwards; 'forward only' helps");
  if (plan.slices != evaluation->slices) {
    return refuse(absl::StrCat("the schedule cuts sequences into ", evaluation->slices,
                               " slices, and ", plan.schedule, ", whose programs it runs, into ",
                               plan.slices));
  }
  const size_t stages = plan.stages.size();
  if (evaluation->stages.size() != stages || evaluation->pipes.size() != plan.pipes.size() ||
      evaluation->ranks() != plan.ranks()) {
    return refuse(absl::StrCat("the schedule has ", evaluation->stages.size(), " stages on ",
                               evaluation->ranks(), " ranks, but ", plan.schedule, " has ", stages,
                               " on ", plan.ranks(), ", which hold the parameters"));
  }
  for (size_t s = 0; s < stages; ++s) {
    const Stage& one = evaluation->stages[s];
    if (one.rank == plan.stages[s].rank && one.pipe == plan.stages[s].pipe) continue;
    return refuse(absl::StrCat("the schedule has stage ", s, " on rank ", one.rank.value,
                               ", but the parameters are on rank ", plan.stages[s].rank.value,
                               " in ", plan.schedule));
  }
  return absl::OkStatus();
}

}  // namespace

TrainingJob::TrainingJob(Plan lowered, std::vector<StageProgram> programs,
                         const TrainerSettings& settings, std::unique_ptr<Backend> backend)
    : plan_(std::move(lowered)),
      links_(WiringOf(plan_, settings.layout)),
      programs_(std::move(programs)),
      settings_(settings),
      own_backend_(std::move(backend)),
      backend_(own_backend_.get()) {}

absl::StatusOr<std::unique_ptr<TrainingJob>> TrainingJob::Make(Plan lowered,
                                                               std::vector<StageProgram> programs,
                                                               const TrainerSettings& settings,
                                                               std::unique_ptr<Backend> backend) {
  SL_RETURN_IF_ERROR(CheckTrains(lowered));
  SL_RETURN_IF_ERROR(CheckUpdates(lowered, programs, settings));
  SL_RETURN_IF_ERROR(CheckEvaluation(lowered, settings.evaluation));
  SL_RETURN_IF_ERROR(CheckSums(lowered, settings.mesh));
  if (backend != nullptr && settings.link.duration_ns != nullptr) {
    return absl::InvalidArgumentError(
        "TrainerSettings::link is the CPU's; another backend is made with its own");
  }
  std::unique_ptr<TrainingJob> job(
      new TrainingJob(std::move(lowered), std::move(programs), settings, std::move(backend)));
  if (job->backend_ == nullptr) SL_RETURN_IF_ERROR(job->MakeCpuBackend());
  SL_RETURN_IF_ERROR(job->GiveUp(job->FindLocalRanks()));
  return job;
}

std::unique_ptr<TrainingJob> TrainingJob::ForEvaluation() const {
  std::vector<StageProgram> forwards;
  for (const StageProgram& program : programs_) forwards.push_back(WithoutBackwards(program));
  TrainerSettings settings = settings_;
  settings.record = false;
  settings.evaluation.reset();
  std::unique_ptr<TrainingJob> job(
      new TrainingJob(*settings_.evaluation, std::move(forwards), settings, nullptr));
  job->backend_ = backend_;
  job->local_ = local_;
  return job;
}

absl::Status TrainingJob::MakeCpuBackend() {
  int threads = settings_.threads;
  if (threads == 0) {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());  // that this process
                                                                               // may use
    threads = std::min(plan_.ranks() * settings_.mesh.coordinates(), static_cast<int>(cores));
  }
  auto backend = CpuBackend::Make(threads, settings_.link);
  if (!backend.ok()) {
    return absl::Status(backend.status().code(),
                        absl::StrCat(backend.status().message(),
                                     "; fewer train.threads in the run file would help"));
  }
  own_backend_ = *std::move(backend);
  backend_ = own_backend_.get();
  return absl::OkStatus();
}

absl::Status TrainingJob::FindLocalRanks() {
  const Mesh& mesh = settings_.mesh;
  if (world() == nullptr) {
    local_ = LocalRanks(mesh, plan_.ranks());
    return absl::OkStatus();
  }
  const int all = mesh.coordinates() * plan_.ranks();
  if (world()->ranks() != all) {
    return absl::InvalidArgumentError(
        absl::StrCat("the processes hold ", world()->ranks(), " ranks, but the run has ", all, ": ",
                     plan_.ranks(), " of the pipeline on ", mesh.coordinates(),
                     mesh.coordinates() == 1 ? " coordinate" : " coordinates", " of the mesh"));
  }
  local_ = LocalRanks(mesh, plan_.ranks(), world()->local());
  return absl::OkStatus();
}

absl::Status TrainingJob::GiveUp(absl::Status status) const {
  if (status.ok() || world() == nullptr) return status;
  status = groups()->Agree(status);
  world()->Fail(status);
  return status;
}

}  // namespace stringline
