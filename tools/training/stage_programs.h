// The stage programs that `stringline program` prints: those of a run file's model and schedule, or
// those in a text that it printed before.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/source.h"
#include "stages/stage_program.h"
#include "tools/io/json.h"

namespace stringline {

struct NamedProgram {
  std::string stage;  // as in the plan: "2", "up[1]"; of a text its place in it
  int rank = -1;      // -1: of a text
  StageProgram program;
};

struct StagePrograms {
  Source source;  // the schedule's, for its findings
  Diagnostics diagnostics;
  std::vector<NamedProgram> programs;  // none after a finding
};

// Reads a run file or a text of programs; `again` as in PlanRequest. Errors: those of
// ReadRunConfig, OpenPlan and BuildStages; of a text, InvalidArgument with its name and line.
absl::StatusOr<StagePrograms> OpenStagePrograms(const std::string& file, bool again);

// Leaves the named stage only; all of them for "". NotFound with the stages that there are.
absl::Status KeepStage(const std::string& stage, StagePrograms* programs);

// The texts of program_text.h, each under a line of comment with its stage.
std::string Print(const StagePrograms& programs);

Json StageProgramsAsJson(const StagePrograms& programs);

}  // namespace stringline
