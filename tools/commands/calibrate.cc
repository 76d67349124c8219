// stringline calibrate: the action costs of a recorded run, as a cost file.
#include "schedlang/costs/calibrate.h"

#include "absl/strings/str_cat.h"
#include "schedlang/ask/session.h"
#include "tools/commands/command.h"
#include "tools/view/words.h"

namespace stringline {

int RunCalibrate(const Flags& flags, const Output& output) {
  if (KindOfFile(flags.file) != FileKind::kTimeline) {
    return Fail(output, absl::StrCat(flags.file,
                                     ": only a recorded timeline has durations; "
                                     "'rehearse' and 'run' write one"));
  }
  const absl::StatusOr<Session> step = OpenRecorded(flags.file);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) return ShowFindings(output, output.err, step->diagnostics, step->source);
  if (const absl::Status may = CheckCalibrates(*step->timeline); !may.ok()) {
    return Fail(output, absl::StrCat(flags.file, ": ", may.message()));
  }
  const std::string title = absl::StrCat(step->timeline->origin, " ", TitleOf(*step->timeline));
  return Deliver(Print(Calibrate(*step->timeline), title), flags.out, output);
}

}  // namespace stringline
