// The last actions of a process's ranks, as files for `stringline show`: left by a run that failed
// (executor/engine/flight_log.h).
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

// The names of such files in a folder, sorted; or of the files with `ending` behind these names.
std::vector<std::string> FlightRecordsIn(const std::string& folder, const std::string& ending = "");

}  // namespace stringline
