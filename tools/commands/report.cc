// stringline report: the uses of a step's time, its distance from a lower bound, and changes that
// would help.
#include <optional>

#include "tools/answers/step_report.h"
#include "tools/commands/command.h"
#include "tools/io/progress.h"
#include "tools/io/requests.h"

namespace stringline {

int RunReport(const Flags& flags, const Output& output) {
  const absl::StatusOr<Session> step = OpenStepOf(flags, output);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) {
    return ShowFindings(output, output.err, step->diagnostics, step->source);
  }
  if (!step->plan) {
    return Fail(output, flags.file + ": the timeline has stages on two ranks, or on none");
  }
  JitterRuns jitter{.seed = flags.seed};
  if (flags.runs > 0) jitter.runs = flags.runs;
  const absl::StatusOr<TimeReport> report = [&] {
    std::optional<Progress> progress;
    return MakeReport(*step, jitter, [&](int run) {
      if (run == 0) {
        progress.emplace(output, "simulating steps with jitter", static_cast<size_t>(jitter.runs));
      } else if (run > 0) {
        progress->Add();
      }
      return true;
    });
  }();
  if (!report.ok()) return Fail(output, report.status().message());
  if (output.json) {
    WriteJson(output.out, ReportAsJson(*step, *report));
  } else {
    PrintReport(*step, *report, output.out);
  }
  return kOk;
}

}  // namespace stringline
