// stringline check: proves a plan, or lists its errors with their places.
#include "schedlang/base/kept_memory.h"
#include "tools/answers/proof.h"
#include "tools/commands/command.h"
#include "tools/io/requests.h"
#include "tools/training/model_sizes.h"

namespace stringline {

int RunCheck(const Flags& flags, const Output& output) {
  KeepLargeMemory();
  if (!flags.ranges.empty()) return RunCheckFor(flags, output);
  FindModelSizes model;
  if (!flags.model.empty()) {
    model = [&flags](const Plan& plan) { return SizesOfModel(flags.model, plan); };
  }
  const absl::StatusOr<Session> checked = OpenCheckedPlanOf(flags, model, output);
  if (!checked.ok()) return Fail(output, checked.status().message());
  // Findings answer the question, so they go to standard output.
  if (!checked->plan) {
    return ShowFindings(output, output.out, checked->diagnostics, checked->source);
  }
  if (output.json) {
    WriteJson(output.out, ProofAsJson(*checked->plan, checked->source, checked->checked_for));
  } else {
    PrintProof(*checked->plan, checked->source, checked->checked_for, output.out);
  }
  return kOk;
}

}  // namespace stringline
