// Restarts of a run's processes after the loss of some.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/run/run_config.h"
#include "tools/io/flags.h"
#include "tools/io/output.h"
#include "tools/training/local_processes.h"

namespace stringline {

LocalRunSettings LocalSettingsOf(const RunConfig& config, bool holds_output);
// The command line of each process that --processes or --restarts starts.
std::vector<std::string> ArgumentsOfEach(const Flags& flags);

// Runs --processes processes, or a single process. When a signal ends a process, when processes
// lose their connections or one does not answer in time, but no signal came to this process, all
// are started again from the newest checkpoint, at most --restarts times; output.err gets a line
// about each restart. An error of the run itself ends it. Returns the last exit status.
absl::StatusOr<int> RunWithRestarts(const Flags& flags, const RunConfig& config,
                                    const Output& output);
// The exit status of a run that has ended, told where no process lived to tell.
int EndOf(const LocalRun& run, const Output& output);

// The number of copies of mesh.data that continue after the loss of these processes of `processes`:
// the most that divide `data` among the copies without a lost rank, or `data` where all copies lost
// a rank.
int CopiesLeft(int data, int processes, absl::Span<const LocalRun::Lost> lost);

// `data` copies instead of mesh.data, with correspondingly more microbatches in each: a step keeps
// its microbatches. State is shared out over a divisor of both. InvalidArgument where `data` does
// not divide mesh.data, or the schedule's M is not in the run file.
absl::Status UseFewerCopies(int data, RunConfig* config);

}  // namespace stringline
