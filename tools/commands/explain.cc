// stringline explain: the reason for an action's start.
#include "absl/strings/str_cat.h"
#include "schedlang/ask/step_answers.h"
#include "tools/answers/explanation.h"
#include "tools/commands/command.h"
#include "tools/io/requests.h"

namespace stringline {

int RunExplain(const Flags& flags, const Output& output) {
  if (flags.action.find('=') != std::string::npos) {
    return Fail(output, absl::StrCat("'", flags.action,
                                     "' is no action; it comes before the parameters, as in 3B7"));
  }
  if (KindOfFile(flags.file) == FileKind::kTimeline) {
    return Fail(output, flags.file + ": only what is simulated is explained, not a timeline");
  }
  const absl::StatusOr<Session> step = OpenStepOf(flags, output);
  if (!step.ok()) return Fail(output, step.status().message());
  if (!step->timeline) return ShowFindings(output, output.err, step->diagnostics, step->source);
  const absl::StatusOr<Explanation> explanation = Explained(*step, flags.action);
  if (!explanation.ok()) return Fail(output, explanation.status().message());
  if (output.json) {
    WriteJson(output.out, ExplanationAsJson(*step, *explanation));
  } else {
    PrintExplanation(*step, *explanation, flags.all, output.out);
  }
  return kOk;
}

}  // namespace stringline
