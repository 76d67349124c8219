// What the ranks of a process did last, as files that `stringline show` draws: what a run that
// failed leaves (executor/flight_log.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/flight_log.h"

namespace stringline {

// Writes FOLDER/flight-PROCESS.timeline, or for each further coordinate of the mesh that the
// process holds ranks of flight-PROCESS-COORDINATE.timeline. The error that ended the run, and when
// its steps begin, are comments in them. Returns the names; none of a run that has not begun a
// step.
absl::StatusOr<std::vector<std::string>> WriteFlightRecords(const std::string& folder, int process,
                                                            const absl::Status& error,
                                                            const FlightLog& flight);

// The names of such files in a folder, sorted; of those with `ending` behind it.
std::vector<std::string> FlightRecordsIn(const std::string& folder, const std::string& ending = "");

}  // namespace stringline
