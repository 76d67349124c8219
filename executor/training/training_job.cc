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

// All parameters are updated together, behind each step (parameter_update.h).
absl::Status CheckUpdates(const Plan& plan) {
  for (const Action& action : plan.actions) {
    if (action.kind != ActionKind::kUpdate) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        PrintWithLine(plan, action),
        ": a training updates all parameters together behind each step, since clipping needs the "
        "norm of all gradients; leave out `update`, `steps` and `versions` here, and rehearse them "
        "with `stringline rehearse`"));
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
  SL_RETURN_IF_ERROR(CheckUpdates(lowered));
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
