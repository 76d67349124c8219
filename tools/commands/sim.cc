// stringline sim: the time of a step in virtual time, and the waits of its ranks.
#include <optional>

#include "schedlang/ask/jitter.h"
#include "schedlang/base/kept_memory.h"
#include "schedlang/base/status.h"
#include "tools/answers/ready_lines.h"
#include "tools/answers/summary.h"
#include "tools/commands/command.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

// The draws that --jitter and --seeds ask for; nothing without them.
absl::StatusOr<std::optional<JitteredSteps>> DrawnSteps(const Flags& flags, const Output& output,
                                                        Session* step) {
  SL_ASSIGN_OR_RETURN(const std::optional<JitterRuns> runs, JitterOf(flags, &*step->costs));
  if (!runs) return std::nullopt;
  Progress progress(output, "simulating steps with jitter", static_cast<size_t>(runs->runs));
  SL_ASSIGN_OR_RETURN(JitteredSteps steps, StepsUnderJitter(*step, *runs, 0, [&progress] {
                        progress.Add();
                        return true;
                      }));
  return steps;
}

}  // namespace

int RunSim(const Flags& flags, const Output& output) {
  KeepLargeMemory();
  if (!flags.ranges.empty()) {
    if (flags.jitter.empty() && flags.seeds == 0) return RunSimFor(flags, output);
    return Fail(output, "--jitter and --seeds are of one step, and --for asks for many");
  }
  if (flags.files.size() > 1) {
    return Fail(output, "several files are simulated with --for NAME=RANGE, or compared");
  }
  if (KindOfFile(flags.file) == FileKind::kTimeline) {
    return Fail(output, flags.file + ": a timeline needs no simulation; see stringline show");
  }
  absl::StatusOr<Session> step = OpenStepOf(flags, output);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) {
    return ShowFindings(output, output.err, step->diagnostics, step->source);
  }
  const auto draws = DrawnSteps(flags, output, &*step);
  if (!draws.ok()) return Fail(output, draws.status().message());
  const Timeline& timeline = *step->timeline;
  if (!flags.timeline_out.empty()) {
    const absl::Status written = WriteAsked(output, flags.timeline_out, Print(timeline));
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    Json json = SummaryAsJson(*step);
    if (*draws) AddJitter(*step, **draws, &json);
    WriteJson(output.out, json);
  } else {
    PrintSummary(*step, output.out);
    if (*draws) PrintJitter(*step, **draws, output.out);
  }
  return kOk;
}

}  // namespace stringline
