// stringline import: a schedule of another notation as a plan, or a model of torch's as a graph.
#include "absl/strings/match.h"
#include "tools/command.h"
#include "tools/import_model.h"
#include "tools/requests.h"

namespace stringline {

int RunImport(const Flags& flags, const Output& output) {
  if (absl::EndsWith(flags.file, ".pt2")) return ImportModel(flags, output);
  if (KindOfFile(flags.file) != FileKind::kTorch) {
    return Fail(
        output,
        flags.file + ": only a schedule (.csv) or a model (.pt2) of torch's can be imported");
  }
  const absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  if (!session->plan)
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  return Deliver(Print(*session->plan), flags.out, output);
}

}  // namespace stringline
