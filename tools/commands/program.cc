// stringline program: the computations of each stage's actions, as text that it reads again.
#include "tools/commands/command.h"
#include "tools/training/stage_programs.h"

namespace stringline {

int RunProgram(const Flags& flags, const Output& output) {
  absl::StatusOr<StagePrograms> programs = OpenStagePrograms(flags.file, flags.again);
  if (!programs.ok()) return Fail(output, programs.status().message());
  if (!programs->diagnostics.empty()) {
    return ShowFindings(output, output.err, programs->diagnostics, programs->source);
  }
  const absl::Status kept = KeepStage(flags.stage, &*programs);
  if (!kept.ok()) return Fail(output, kept.message());
  if (!output.json) return Deliver(Print(*programs), flags.out, output);
  if (!flags.out.empty()) {
    const absl::Status written = WriteAsked(output, flags.out, Print(*programs));
    if (!written.ok()) return Fail(output, written.message());
  }
  WriteJson(output.out, StageProgramsAsJson(*programs));
  return kOk;
}

}  // namespace stringline
