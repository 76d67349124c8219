// stringline plan: what each rank does, in order.
#include "schedlang/plan.h"

#include "tools/command.h"
#include "tools/json.h"
#include "tools/requests.h"

namespace stringline {
namespace {

Json RanksAsJson(const Plan& plan) {
  Json ranks = Json::array();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const absl::Span<const Action> actions = plan.of(RankId(rank));
    Json groups = Json::array();
    for (size_t i = 0; i < actions.size(); ++i) {
      if (!actions[i].joined) groups.push_back(PrintGroup(plan, actions, i));
    }
    ranks.push_back(std::move(groups));
  }
  return ranks;
}

Json PlanAsJson(const Plan& plan) {
  Json stages = Json::array();
  for (const Stage& stage : plan.stages) stages.push_back(stage.rank.value);
  return {{"ok", true},
          {"schedule", plan.schedule},
          {"parameters", ParametersAsJson(plan.parameters)},
          {"microbatches", plan.microbatches},
          {"lowered", plan.lowered},
          {"stages", std::move(stages)},
          {"ranks", RanksAsJson(plan)}};
}

}  // namespace

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
