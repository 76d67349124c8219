// A training run with all that it reads and leaves in folders, and what signals do to it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "executor/processes/identity.h"
#include "executor/run_config.h"
#include "executor/train.h"
#include "schedlang/plan.h"
#include "tools/run_files.h"

namespace stringline {

struct RunFolders {
  std::string out;   // of RunFiles
  std::string save;  // "": parameters are not saved
  std::string load;  // "": a run begins with parameters drawn from the seed
};

// What a run that trained left: its end, or where a signal stopped it.
struct RecordedRun {
  TrainResult result;
  int signal = 0;                 // that stopped it; 0: none, or one that another process got
  std::optional<RunFiles> files;  // of a run that reached its end
  std::string losses;             // losses.csv, or losses.csv.part of one that was stopped
  std::string saved;              // the file of the parameters; "": none
};

// Trains. The folders are those that TryFolder has tried. `begin` is called when all checks are
// passed, before the first step. The first SIGINT or SIGTERM from then on ends the run after the
// step that is under way, and the parameters are saved as at the end. The message of an error says
// what is left of the run, too.
//
// Of several processes only the first writes files, prints and calls `begin`, `resumed` (where a
// checkpoint was resumed) and `report`.
absl::StatusOr<RecordedRun> TrainIntoFolders(
    const RunConfig& config, const Plan& plan, const TrainingData& data, const RunFolders& folders,
    const Identity& identity, const std::function<void(const Trainer&)>& begin,
    const std::function<void(const ResumedRun&)>& resumed,
    const std::function<void(const TrainProgress&)>& report);

}  // namespace stringline
