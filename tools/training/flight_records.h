// The last actions of a process's ranks, as files for `stringline show`: left by a run that failed,
// or asked for while it runs (executor/engine/flight_log.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/engine/flight_log.h"

namespace stringline {

// Writes FOLDER/flight-PROCESS.timeline, or flight-PROCESS-COORDINATE.timeline for each further
// coordinate of the mesh in this process. Comments in the files give the error that ended the run,
// and the times at which its steps begin. Returns the names; none for a run that has not begun a
// step.
absl::StatusOr<std::vector<std::string>> WriteFlightRecords(const std::string& folder, int process,
                                                            const absl::Status& error,
                                                            const FlightLog& flight);

// The same of a run under way: flight-PROCESS-asked-NUMBER-step-STEP.timeline, where STEP counts
// the steps begun since the process started.
absl::StatusOr<std::vector<std::string>> WriteAskedRecords(const std::string& folder, int process,
                                                           int64_t number, const FlightLog& flight);

// The names of such files in a folder, sorted; or of the files with `ending` behind these names.
std::vector<std::string> FlightRecordsIn(const std::string& folder, const std::string& ending = "");

}  // namespace stringline
