// stringline check: proves a plan, or says what is wrong with it and where.
#include "tools/command.h"
#include "tools/proof.h"
#include "tools/requests.h"

namespace stringline {

int RunCheck(const Flags& flags, const Output& output) {
  if (!flags.ranges.empty()) return RunCheckFor(flags, output);
  const absl::StatusOr<Session> checked = OpenCheckedPlanOf(flags, output);
  if (!checked.ok()) return Fail(output, checked.status().message());
  // Findings are what was asked for here, so they are the answer.
  if (!checked->plan) {
    return ShowFindings(output, output.out, checked->diagnostics, checked->source);
  }
  if (output.json) {
    WriteJson(output.out, ProofAsJson(*checked->plan, checked->checked_for));
  } else {
    PrintProof(*checked->plan, checked->checked_for, output.out);
  }
  return kOk;
}

}  // namespace stringline
