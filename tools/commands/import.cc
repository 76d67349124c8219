// stringline import: a schedule of another notation as a plan.
#include "tools/command.h"
#include "tools/requests.h"

namespace stringline {

int RunImport(const Flags& flags, const Output& output) {
  if (KindOfFile(flags.file) != FileKind::kTorch) {
    return Fail(output, flags.file + ": only a schedule of torch's (.csv) can be imported");
  }
  const absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  if (!session->plan)
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  return Deliver(Print(*session->plan), flags.out, output);
}

}  // namespace stringline
