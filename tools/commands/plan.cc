// stringline plan: each rank's actions, in order.
#include "schedlang/plan/plan.h"

#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/requests.h"

namespace stringline {
int RunPlan(const Flags& flags, const Output& output) {
  absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  if (!session->plan) {
    return ShowFindings(output, output.err, session->diagnostics, session->source);
  }
  Plan& plan = *session->plan;
  if (flags.lowered) plan = LoweredPlan(std::move(plan), LayoutOf(flags));
  if (output.json) {
    WriteJson(output.out, PlanAsJson(plan));
  } else {
    output.out << Print(plan);
  }
  return kOk;
}

}  // namespace stringline
