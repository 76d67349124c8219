// A case prepared before any run, so that a case that cannot run is reported without a try, and
// earlier measurements are found again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/suite_file.h"
#include "tools/io/json.h"

namespace stringline {

struct PreparedCase {
  SuiteCase of;
  std::string reason;  // why the case cannot run; "": no reason known
  std::string plan;    // the schedule's, as a `.plan`
  std::string schedule_name;
  // The request to torch's side (bench/torch_pipeline.py), and the reason without a request; null
  // and "" if nothing runs beside.
  Json torch;
  std::string torch_reason;
  std::string torch_csv;
  Json inputs;  // every input except machine and versions
};

// Opens the schedule, checks it, cuts the model. `again`: as in PlanRequest. Error: a file that
// cannot be read.
absl::StatusOr<PreparedCase> PrepareCase(const SuiteCase& of, const Suite& suite, bool again);

}  // namespace stringline
