// stringline calibrate: what the actions of a recorded run cost, as a cost file.
#include "schedlang/sim/calibrate.h"

#include "absl/strings/str_cat.h"
#include "tools/command.h"
#include "tools/load.h"
#include "tools/view/words.h"

namespace stringline {

int RunCalibrate(const Flags& flags, const Output& output) {
  if (!HasExtension(flags.file, ".timeline")) {
    return Fail(output, absl::StrCat(flags.file,
                                     ": only a recorded timeline has durations; "
                                     "'rehearse' and 'run' write one"));
  }
  const absl::StatusOr<Source> source = ReadSource(flags.file);
  if (!source.ok()) return Fail(output, source.status().message());
  Diagnostics diagnostics;
  const std::optional<Timeline> timeline = ReadTimeline(*source, &diagnostics);
  if (!timeline || !diagnostics.empty()) {
    return ShowFindings(output, output.err, diagnostics, *source);
  }
  const std::string title = absl::StrCat(timeline->origin, " ", TitleOf(*timeline));
  return Deliver(Print(Calibrate(*timeline), title), flags.out, output);
}

}  // namespace stringline
