// Runs whose processes are started again when one of them is lost.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/run_config.h"
#include "tools/flags.h"
#include "tools/local_processes.h"

namespace stringline {

// The command line of each process that --processes or --restarts start.
std::vector<std::string> ArgumentsOfEach(const Flags& flags);

// Runs --processes of them, or one. When a signal ends one, but none came to this process, all are
// started again from the newest checkpoint, at most --restarts times; `err` is told so in a line.
// An error of the run itself ends it. Returns the last exit status.
absl::StatusOr<int> RunWithRestarts(const Flags& flags, const RunConfig& config, std::ostream& err);

// How many copies of mesh.data go on when these processes of `processes` are lost: the most that
// divide `data` among those of which no rank is lost, or `data` where there are none.
int CopiesLeft(int data, int processes, absl::Span<const LocalRun::Lost> lost);

// `data` copies instead of mesh.data, and so many times more microbatches in each: a step has the
// same ones. InvalidArgument where `data` does not divide mesh.data, or the schedule's M is not in
// the run file.
absl::Status UseFewerCopies(int data, RunConfig* config);

}  // namespace stringline
