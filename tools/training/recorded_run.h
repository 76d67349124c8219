// A training run with all its files in folders, and its signals.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "executor/checkpoint/held_state.h"
#include "executor/processes/healing.h"
#include "executor/processes/identity.h"
#include "executor/processes/return_door.h"
#include "executor/run/run_config.h"
#include "executor/run/train.h"
#include "schedlang/plan/plan.h"
#include "tools/training/run_files.h"

namespace stringline {

// The results of a run that trained to its end, or until a signal.
struct RecordedRun {
  TrainResult result;
  int signal = 0;                 // the stopping signal; 0: none, or another process's
  std::optional<RunFiles> files;  // for a run that reached its end, and trained until there
  std::string losses;             // losses.csv, or losses.csv.part of a stopped run
  std::string saved;              // the file of the parameters; "": none
};

// The means by which a run goes on when it has lost a process; null where it does not.
struct Heals {
  Healing* healing = nullptr;
  HeldState* held = nullptr;
  ReturnDoor* door = nullptr;  // where processes may come back
  std::function<bool()> grows;
  std::function<absl::Status(int64_t step, World* world)> change;
};

// Trains. TryFolder must have tried the folders. `begin` is called after all checks, before the
// first step. The first SIGINT, SIGTERM or SIGHUP from then on ends the run after the current step,
// and the parameters are saved as at the end; SIGUSR1 takes a checkpoint, if the run takes some;
// SIGUSR2 writes flight records of all processes at once.
// The message of an error also lists the files that the run leaves.
//
// In a run of several processes only the first writes files, prints and calls `begin`, `resumed`
// (where a checkpoint was resumed), `report`, and `warn` of a rank that has become slow.
absl::StatusOr<RecordedRun> TrainIntoFolders(
    const RunConfig& config, const Plan& plan, const TrainingData& data,
    const std::optional<EvaluationOfRun>& evaluation, const RunFolders& folders,
    const Identity& identity, const std::function<void(const Trainer&)>& begin,
    const std::function<void(const ResumedRun&)>& resumed,
    const std::function<void(const TrainProgress&)>& report,
    const std::function<void(const std::string&)>& warn, const Heals& heals = {});

// Evaluates the parameters of folders.load, of config.resume, or else the run's first ones, and
// writes no file. `begin` and `resumed` as above.
absl::StatusOr<Evaluated> EvaluateAlone(const RunConfig& config, const Plan& plan,
                                        const EvaluationOfRun& evaluation,
                                        const RunFolders& folders, const Identity& identity,
                                        const std::function<void(const Trainer&)>& begin,
                                        const std::function<void(const ResumedRun&)>& resumed);

}  // namespace stringline
