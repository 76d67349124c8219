// A training is hooks around its files: losses as they come, signals asked for after every step,
// parameters at the end, and flight records of a run that lost a rank.
#include "tools/training/recorded_run.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/engine/lost_process.h"
#include "executor/training/trainer.h"
#include "schedlang/base/status.h"
#include "tools/io/stop_signals.h"
#include "tools/metrics/run_metrics.h"
#include "tools/training/agreement.h"
#include "tools/training/asked_records.h"
#include "tools/training/choose_backend.h"
#include "tools/training/flight_records.h"

namespace stringline {
namespace {

class Recording {
 public:
  Recording(const RunConfig& config, const RunFolders& folders, const Identity& identity,
            RunMetrics::Warn warn)
      : config_(config),
        folders_(folders),
        identity_(identity),
        writes_(identity.process == 0),
        warn_(std::move(warn)),
        asked_(folders.out, identity.process),
        signals_(SignalsOf(config, &asked_)) {}

  absl::Status Start(Trainer& trainer) {
    if (trainer.world() != nullptr) name_ = trainer.world()->NameOfProcess(identity_.process);
    ended_before_ = trainer.updates() >= config_.steps;
    if (writes_ && !folders_.save.empty())
      SL_RETURN_IF_ERROR(CheckSavable(folders_.save, config_.shape));
    // A run that goes on has its parameters from memory.
    if (!folders_.load.empty() && identity_.healed == 0) {
      SL_RETURN_IF_ERROR(
          LoadModelFolder(folders_.load, config_.shape, PlacesOf(trainer).all(), trainer.world()));
    }
    if (!writes_) {
      signals_.Begin();
      asked_.Begin(trainer, &signals_);
      return absl::OkStatus();
    }
    // The other results of a run that ended before are its own, as are the records of one that
    // heals.
    if (!ended_before_ && identity_.healed == 0) SL_RETURN_IF_ERROR(SetResultsAside(folders_.out));
    signals_.Begin();
    asked_.Begin(trainer, &signals_);
    SL_ASSIGN_OR_RETURN(LossFile losses,
                        LossFile::Create(folders_.out, config_.evaluate.every > 0));
    losses_.emplace(std::move(losses));
    SL_ASSIGN_OR_RETURN(metrics_,
                        RunMetrics::Open(config_, folders_.out, trainer.updates(), warn_));
    return absl::OkStatus();
  }

  // Takes over the losses of the steps in the checkpoint.
  absl::Status GoOn(const StepHistory& history) {
    for (size_t i = 0; i < history.losses_nats.size(); ++i) {
      TrainStep step;
      step.step = static_cast<int64_t>(i) + 1;
      step.loss_nats = history.losses_nats[i];
      step.grad_norm = history.grad_norms[i];
      step.learning_rate = history.learning_rates[i];
      const auto validation = history.validations_nats.find(step.step);
      if (validation != history.validations_nats.end()) step.validation_nats = validation->second;
      SL_RETURN_IF_ERROR(Add(step));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const TrainStep& step) {
    if (losses_) failed_here_ = losses_->Add(step);
    SL_RETURN_IF_ERROR(failed_here_);
    steps_ = step.step;
    return absl::OkStatus();
  }

  // The same of a step of this run, with its metrics.
  absl::Status Add(const TrainStep& step, Trainer& trainer) {
    SL_RETURN_IF_ERROR(Add(step));
    if (metrics_ != nullptr) failed_here_ = metrics_->Add(step, trainer);
    return failed_here_;
  }

  // Writes a flight record for errors that leave the cause open: a lost rank, or a rank that waits.
  absl::Status RecordFlight(const absl::Status& error, const Trainer& trainer) {
    const FlightLog* const flight = trainer.flight();
    if (flight == nullptr) return error;
    const bool of_numbers = absl::IsOutOfRange(error) || !failed_here_.ok();
    if (of_numbers && !flight->HasUnfinished()) return error;
    const auto files = WriteFlightRecords(folders_.out, identity_.process, error, *flight);
    if (!files.ok()) {
      left_ = absl::StrCat("; no flight record: ", files.status().message());
    } else if (!files->empty()) {
      left_ = absl::StrCat("; what the ranks did last is in ", absl::StrJoin(*files, " and "));
    }
    return error;
  }

  void Leave() { asked_.End(); }
  bool Stops() const { return signals_.came() != 0; }
  bool WantsCheckpoint() { return signals_.TakeWish(); }

  absl::Status Save(int64_t step, Trainer& trainer) {
    if (folders_.save.empty()) return absl::OkStatus();
    World* const world = trainer.world();
    const absl::Status saved =
        SaveModelFolder(folders_.save, config_.shape, step, PlacesOf(trainer).all(), world);
    if (world == nullptr || world->state().ok()) failed_here_ = saved;
    SL_RETURN_IF_ERROR(saved);
    saved_ = ParamsFile(folders_.save);
    return absl::OkStatus();
  }

  absl::StatusOr<RecordedRun> Finish(TrainResult result) {
    RecordedRun run;
    run.result = std::move(result);
    run.saved = saved_;
    if (run.result.stopped) run.signal = signals_.End();
    if (!writes_) return run;
    if (run.result.stopped) {
      run.losses = losses_->part();
      return run;
    }
    if (!run.result.trained()) {
      failed_here_ = losses_->Finish();
      SL_RETURN_IF_ERROR(failed_here_);
      run.losses = losses_->path();
      return run;
    }
    absl::StatusOr<RunFiles> files = WriteRunFiles(folders_.out, run.result, &*losses_);
    failed_here_ = files.status();
    SL_RETURN_IF_ERROR(failed_here_);
    run.files = *std::move(files);
    run.losses = run.files->losses;
    return run;
  }

  // Removes a file of losses that holds none.
  void DropNoLosses() {
    if (!losses_ || steps_ > 0) return;
    losses_->Discard();
    losses_.reset();
  }

  // The error with a list of the files that the run leaves.
  absl::Status Describe(const absl::Status& error) const {
    // The others have it with this process's name.
    std::string message(failed_here_.ok() || name_.empty() ? "" : name_ + ": ");
    absl::StrAppend(&message, error.message());
    if (!losses_) return WithMessage(error, absl::StrCat(message, left_));
    absl::StrAppend(&message, left_, "; ", losses_->part(), " holds the losses of ", steps_,
                    steps_ == 1 ? " step" : " steps");
    if (!saved_.empty()) absl::StrAppend(&message, "; parameters are saved in ", saved_);
    if (config_.checkpoint.every > 0) {
      const auto found = FindCheckpoints(config_.checkpoint.folder);
      if (!found.empty()) {
        absl::StrAppend(&message, "; ", found.front().folder, " is the newest checkpoint");
      }
    }
    if (!folders_.save.empty() && saved_.empty()) {
      const std::string file = ParamsFile(folders_.save);
      std::error_code ignored;
      absl::StrAppend(&message, "; no parameters are saved");
      if (std::filesystem::exists(file, ignored)) {
        absl::StrAppend(&message, ", ", file, " is as it was before");
      }
    }
    return WithMessage(error, message);
  }

 private:
  // SIGHUP stops, too; SIGUSR1 has its usual effect where no checkpoint can be taken.
  static WaitedSignals SignalsOf(const RunConfig& config, AskedRecords* asked) {
    return {.stops = {SIGINT, SIGTERM, SIGHUP},
            .wish = config.checkpoint.every > 0 ? SIGUSR1 : 0,
            .call = SIGUSR2,
            .called = [asked](const SignalCall& call) { asked->Ask(call); }};
  }

  const RunConfig& config_;
  const RunFolders& folders_;
  const Identity& identity_;
  const bool writes_;
  const RunMetrics::Warn warn_;
  std::string name_;                     // in messages, if there are several processes
  bool ended_before_ = false;            // only the end is left, of a run that was killed there
  AskedRecords asked_;                   // before the thread of the signals
  StopSignals signals_;                  // before the threads of the training are started
  std::optional<LossFile> losses_;       // from the start of the training
  std::unique_ptr<RunMetrics> metrics_;  // null: none are noted
  int64_t steps_ = 0;                    // steps with written losses
  std::string saved_;
  absl::Status failed_here_;  // a failed write of this process
  std::string left_;          // for the flight records: "; …"
};

// The backend, once all processes of the run agree.
absl::StatusOr<std::unique_ptr<Backend>> AgreedBackend(const RunConfig& config, const Plan& plan,
                                                       const Plan* evaluation,
                                                       const RunFolders& folders,
                                                       const Identity& identity) {
  const ConfigLines agreement =
      identity.processes == 1 ? ConfigLines() : AgreementOf(config, plan, folders, evaluation);
  return MakeBackend(config, plan, identity, agreement);
}

}  // namespace

absl::StatusOr<RecordedRun> TrainIntoFolders(
    const RunConfig& config, const Plan& plan, const TrainingData& data,
    const std::optional<EvaluationOfRun>& evaluation, const RunFolders& folders,
    const Identity& identity, const std::function<void(const Trainer&)>& begin,
    const std::function<void(const ResumedRun&)>& resumed,
    const std::function<void(const TrainProgress&)>& report,
    const std::function<void(const std::string&)>& warn, const Heals& heals) {
  const bool first = identity.process == 0;
  Recording recording(config, folders, identity, warn);
  TrainHooks hooks;
  hooks.held = heals.held;
  hooks.grows = heals.grows;
  hooks.change = heals.change;
  if (first) hooks.report = report;
  hooks.start = [&](Trainer& trainer) {
    SL_RETURN_IF_ERROR(recording.Start(trainer));
    if (first) begin(trainer);
    return absl::OkStatus();
  };
  hooks.resumed = [&](const ResumedRun& from) {
    SL_RETURN_IF_ERROR(recording.GoOn(from.history));
    if (first) resumed(from);
    return absl::OkStatus();
  };
  hooks.after_step = [&](const TrainStep& step, Trainer& trainer) {
    return recording.Add(step, trainer);
  };
  hooks.failed = [&](const absl::Status& error, Trainer& trainer) {
    return recording.RecordFlight(error, trainer);
  };
  hooks.stop = [&] { return recording.Stops(); };
  hooks.checkpoint = [&] { return recording.WantsCheckpoint(); };
  hooks.end = [&](int64_t step, Trainer& trainer) { return recording.Save(step, trainer); };
  hooks.leave = [&] { recording.Leave(); };
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      AgreedBackend(config, plan, evaluation ? &evaluation->plan : nullptr, folders, identity);
  if (!backend.ok()) return backend.status();
  if (heals.healing != nullptr && *backend != nullptr) {
    SL_RETURN_IF_ERROR(heals.healing->Introduce((*backend)->world()));
  }
  if (heals.door != nullptr && first) {
    const absl::Status open = heals.door->Open();
    if (!open.ok() && identity.healed == 0) {
      warn(absl::StrCat("no lost process can come back: ", open.message()));
    }
  }
  absl::StatusOr<TrainResult> result =
      Train(config, plan, data, hooks, *std::move(backend), evaluation);
  if (!result.ok()) {
    recording.DropNoLosses();
    return recording.Describe(result.status());
  }
  if (result->changes) return RecordedRun{.result = *std::move(result)};
  absl::StatusOr<RecordedRun> run = recording.Finish(*std::move(result));
  if (!run.ok()) return recording.Describe(run.status());
  return run;
}

absl::StatusOr<Evaluated> EvaluateAlone(const RunConfig& config, const Plan& plan,
                                        const EvaluationOfRun& evaluation,
                                        const RunFolders& folders, const Identity& identity,
                                        const std::function<void(const Trainer&)>& begin,
                                        const std::function<void(const ResumedRun&)>& resumed) {
  const bool first = identity.process == 0;
  TrainHooks hooks;
  hooks.start = [&](Trainer& trainer) {
    if (!folders.load.empty()) {
      SL_RETURN_IF_ERROR(
          LoadModelFolder(folders.load, config.shape, PlacesOf(trainer).all(), trainer.world()));
    }
    if (first) begin(trainer);
    return absl::OkStatus();
  };
  hooks.resumed = [&](const ResumedRun& from) {
    if (first) resumed(from);
    return absl::OkStatus();
  };
  SL_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                      AgreedBackend(config, plan, &evaluation.plan, folders, identity));
  return Evaluate(config, plan, hooks, std::move(backend), evaluation);
}

}  // namespace stringline
