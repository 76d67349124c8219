// stringline report: where a step's time goes, how far it is from the best possible, and what would
// help.
#include <optional>

#include "tools/command.h"
#include "tools/progress.h"
#include "tools/requests.h"
#include "tools/step_report.h"

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
