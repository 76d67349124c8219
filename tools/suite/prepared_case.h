// A case made ready: everything that is known before it runs, so that what cannot be run is told
// without trying, and what has been measured before is found again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/json.h"
#include "tools/suite/suite_file.h"

namespace stringline {

struct PreparedCase {
  SuiteCase of;
  std::string reason;  // why it cannot be run; "": nothing is known against it
  std::string plan;    // the schedule's, as a `.plan`
  std::string schedule_name;
  // What torch's side is asked for (bench/torch_pipeline.py), and why it cannot be; null and "" if
  // nothing runs beside.
  Json torch;
  std::string torch_reason;
  std::string torch_csv;
  Json inputs;  // all that goes in, but for machine and versions
};

// Opens the schedule, checks it, cuts the model. `again`: as of PlanRequest. Error: a file that
// cannot be read.
absl::StatusOr<PreparedCase> PrepareCase(const SuiteCase& of, const Suite& suite, bool again);

}  // namespace stringline
