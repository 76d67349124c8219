#include "tools/training/strict_plan.h"

#include <algorithm>
#include <utility>

#include "executor/rehearsal/strict.h"
#include "schedlang/base/status.h"
#include "schedlang/check/check.h"

namespace stringline {

absl::StatusOr<StrictPlan> OpenStrictPlan(const PlanRequest& request, const CheckRequest& check) {
  SL_ASSIGN_OR_RETURN(Session session, OpenPlan(request));
  if (!session.plan) return StrictPlan{std::move(session), ""};
  SL_RETURN_IF_ERROR(RefuseIssued(session, "a run"));
  const CommLayout layout = check.layout.value_or(CommLayout::kEdge);
  session.checked_for.layout = layout;
  session.checked_for.sharded = check.collectives.gathers;
  session.plan = LoweredPlan(*std::move(session.plan), layout, check.collectives);
  Check(*session.plan, session.checked_for, &session.diagnostics);
  const auto& findings = session.diagnostics.findings();
  const bool tried = std::all_of(findings.begin(), findings.end(), [](const Diagnostic& finding) {
    return finding.code == Code::kProgress;
  });
  if (!tried) {
    session.plan.reset();
    return StrictPlan{std::move(session), ""};
  }
  const absl::Status ends = RunStrict(*session.plan, layout);
  return StrictPlan{std::move(session), std::string(ends.message())};
}

}  // namespace stringline
