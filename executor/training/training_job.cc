#include "executor/training/training_job.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/cpu/backend.h"
#include "schedlang/base/status.h"

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

}  // namespace

TrainingJob::TrainingJob(Plan lowered, std::vector<StageProgram> programs,
                         const TrainerSettings& settings, std::unique_ptr<Backend> backend)
    : plan_(std::move(lowered)),
      links_(WiringOf(plan_, settings.layout)),
      programs_(std::move(programs)),
      settings_(settings),
      backend_(std::move(backend)) {}

absl::StatusOr<std::unique_ptr<TrainingJob>> TrainingJob::Make(Plan lowered,
                                                               std::vector<StageProgram> programs,
                                                               const TrainerSettings& settings,
                                                               std::unique_ptr<Backend> backend) {
  SL_RETURN_IF_ERROR(CheckUpdates(lowered, programs, settings));
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
  backend_ = *std::move(backend);
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
