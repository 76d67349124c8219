// stringline export: a schedule in another notation.
#include "tools/answers/torch_text.h"
#include "tools/commands/command.h"
#include "tools/io/requests.h"

namespace stringline {

int RunExport(const Flags& flags, const Output& output) {
  absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  const absl::StatusOr<CostRequest> costs = CostRequestOf(flags);
  if (!costs.ok()) return Fail(output, costs.status().message());
  const auto text = TorchTextOf(&*session, flags.to, *costs);
  if (!text.ok()) return Fail(output, text.status().message());
  if (!*text) return ShowFindings(output, output.err, session->diagnostics, session->source);
  return Deliver(**text, flags.out, output);
}

}  // namespace stringline
