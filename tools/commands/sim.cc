// stringline sim: the time of a step in virtual time, and the waits of its ranks.
#include "tools/answers/summary.h"
#include "tools/commands/command.h"
#include "tools/io/requests.h"

namespace stringline {

int RunSim(const Flags& flags, const Output& output) {
  if (!flags.ranges.empty()) return RunSimFor(flags, output);
  if (flags.files.size() > 1) {
    return Fail(output, "several files are simulated with --for NAME=RANGE, or compared");
  }
  if (KindOfFile(flags.file) == FileKind::kTimeline) {
    return Fail(output, flags.file + ": a timeline needs no simulation; see stringline show");
  }
  const absl::StatusOr<Session> step = OpenStepOf(flags, output);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) {
    return ShowFindings(output, output.err, step->diagnostics, step->source);
  }
  const Timeline& timeline = *step->timeline;
  if (!flags.timeline_out.empty()) {
    const absl::Status written = WriteAsked(output, flags.timeline_out, Print(timeline));
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    WriteJson(output.out, SummaryAsJson(*step));
  } else {
    PrintSummary(*step, output.out);
  }
  return kOk;
}

}  // namespace stringline
