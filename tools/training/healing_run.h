// A run whose processes change: it goes on without lost ones, and with those that come back.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/processes/hello.h"
#include "executor/processes/identity.h"
#include "executor/run/run_config.h"
#include "tools/io/output.h"
#include "tools/training/recorded_run.h"

namespace stringline {

// Refuses 'heal' where no process could go on without another.
absl::Status CheckHeals(const RunConfig& config, int processes);

// The part of a run between two changes of its processes.
struct PartOfRun {
  // Makes the plans for a number of copies. An exit status; kOk: they are made.
  std::function<int(const RunConfig& now)> plan;
  // Trains with them. The exit status of a run that has ended; nothing where its processes change
  // without a loss; the error where some were lost.
  std::function<absl::StatusOr<std::optional<int>>(const RunConfig& now, const Identity& identity,
                                                   const Heals& heals)>
      train;
};

// Trains until the run ends, or this process leaves it; the exit status. `agreement`: of the run as
// it began, for processes that come back. `comes_back`: this process does.
int TrainAndHeal(const RunConfig& config, const Identity& identity, const ConfigLines& agreement,
                 bool comes_back, const PartOfRun& part, const Output& output);

}  // namespace stringline
