#include "executor/run/run_start.h"

#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/checkpoint/model_sizes.h"
#include "executor/checkpoint/resume.h"
#include "executor/torch_model/export_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// The place of the state that is no checkpoint (ResumedRun::folder).
constexpr char kFromMemory[] = "the state in memory";

// Differs between any two starts of runs.
std::string NewRunId() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

// The state common to all checkpoints of this run.
CheckpointState StateOfRun(const RunConfig& config, const TrainingData& data,
                           const Trainer& trainer) {
  CheckpointState state;
  state.seed = config.seed;
  state.data = data.Identity();
  state.microbatches = trainer.microbatches();
  state.microbatch = config.shape.microbatch();
  state.context = config.shape.context();
  state.deterministic = config.deterministic;
  for (auto& [name, value] : SizesOf(config.shape)) state.model[name] = value;
  return state;
}

absl::Status CheckStepsLeft(const RunConfig& config, const ResumedRun& resumed, const Plan& plan) {
  const bool ended = resumed.step == config.steps && config.resume == kResumeAuto;
  if (resumed.step >= config.steps && !ended) {
    return absl::InvalidArgumentError(
        absl::StrCat("`resume`: ", resumed.folder, ": the checkpoint is of step ", resumed.step,
                     ", but the run has ", config.steps, " steps; more of them would help"));
  }
  return CheckSteps("train.steps less the checkpoint's", config.steps - resumed.step, plan);
}

// The processes choose the checkpoint together, and each reads its parameters.
absl::StatusOr<ResumedRun> ResumeRun(const RunConfig& config, const CheckpointState& now,
                                     Trainer* trainer) {
  const bool if_there = config.resume == kResumeAuto;
  absl::StatusOr<ChosenCheckpoint> chosen =
      ChooseCheckpoint(if_there ? config.checkpoint.folder : config.resume, trainer->world());
  if (if_there && absl::IsNotFound(chosen.status())) return ResumedRun();
  SL_RETURN_IF_ERROR(chosen.status());
  SL_ASSIGN_OR_RETURN(CheckpointState state, Resume(chosen->folder, config.shape, now, trainer));
  ResumedRun resumed = {chosen->folder, state.step, std::move(chosen->skipped),
                        std::move(state.history)};
  if (!config.evaluate.alone) {
    SL_RETURN_IF_ERROR(CheckStepsLeft(config, resumed, trainer->plan()));
  }
  return resumed;
}

}  // namespace

absl::Status CheckSteps(const char* name, int64_t steps, const Plan& plan) {
  if (steps % plan.steps == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "` is ", steps, ", but the schedule performs ", plan.steps,
                   " steps at once: a multiple of ", plan.steps, " would help"));
}

absl::StatusOr<RunStart> StartRun(const RunConfig& config, const TrainingData& data,
                                  Trainer* trainer, const AvailableMemory& before,
                                  HeldState* held) {
  const bool takes = config.checkpoint.every > 0 && !config.evaluate.alone;
  std::unique_ptr<CheckpointFolder> folder;
  if (takes && IsFirst(trainer->world())) {
    SL_ASSIGN_OR_RETURN(folder, CheckpointFolder::Open(config.checkpoint.folder, NewRunId()));
  }
  CheckpointState now = StateOfRun(config, data, *trainer);
  RunStart start;
  if (held != nullptr && held->goes_on()) {
    SL_ASSIGN_OR_RETURN(HeldState::Restored restored, held->Restore(trainer));
    start.resumed = {kFromMemory, restored.step, {}, std::move(restored.history)};
  } else if (!config.resume.empty()) {
    SL_ASSIGN_OR_RETURN(start.resumed, ResumeRun(config, now, trainer));
  }
  if (start.resumed.folder.empty() && !config.model_export.empty()) {
    SL_RETURN_IF_ERROR(
        LoadExportedParams(config.model_export, config.shape, PlacesOf(*trainer).all()));
    SL_RETURN_IF_ERROR(trainer->RefreshWorking());
  }
  if (start.resumed.folder.empty() && !config.model_folder.empty()) {
    SL_RETURN_IF_ERROR(LoadModelFolder(config.model_folder, config.shape, PlacesOf(*trainer).all(),
                                       trainer->world()));
    SL_RETURN_IF_ERROR(trainer->RefreshWorking());
  }
  if (!takes) return start;
  now.step = start.resumed.step;
  SL_ASSIGN_OR_RETURN(start.checkpoints,
                      Checkpoints::Make(config.checkpoint, config.shape, std::move(now), trainer,
                                        std::move(folder), before));
  return start;
}

}  // namespace stringline
