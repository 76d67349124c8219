// stringline export: a schedule in another notation.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/answers/torch_text.h"
#include "tools/commands/command.h"
#include "tools/io/requests.h"

namespace stringline {
namespace {

// The statements of a plan about the inside of its stages: torch's forms, lists of actions, have no
// words for them.
std::vector<std::string> SaidInside(const Plan& plan) {
  std::vector<std::string> said;
  if (plan.chunks > 1) said.push_back(absl::StrCat("chunks ", plan.chunks));
  if (std::find(plan.recompute.begin(), plan.recompute.end(), 1) != plan.recompute.end()) {
    said.emplace_back("recompute");
  }
  if (plan.split.kind != Split::Kind::kEven) said.emplace_back("split");
  return said;
}

}  // namespace

int RunExport(const Flags& flags, const Output& output) {
  absl::StatusOr<Session> session = OpenPlanOf(flags);
  if (!session.ok()) return Fail(output, session.status().message());
  const absl::StatusOr<CostRequest> costs = CostRequestOf(flags);
  if (!costs.ok()) return Fail(output, costs.status().message());
  const auto text = TorchTextOf(&*session, flags.to, *costs);
  if (!text.ok()) return Fail(output, text.status().message());
  if (!*text) return ShowFindings(output, output.err, session->diagnostics, session->source);
  const int status = Deliver(**text, flags.out, output);
  const std::vector<std::string> said = SaidInside(*session->plan);
  if (status == 0 && !said.empty()) {
    output.err << "note: torch's form lists actions alone, without what the schedule says of the "
                  "inside of stages: "
               << absl::StrJoin(said, ", ") << "\n";
  }
  return status;
}

}  // namespace stringline
