// stringline plan: what each rank does, in order.
#include "schedlang/plan.h"

#include "schedlang/lower/lower.h"
#include "tools/check_options.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/load.h"

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
  absl::StatusOr<LoadedPlan> loaded = LoadPlan(flags);
  if (!loaded.ok()) return Fail(output, loaded.status().message());
  if (!loaded->plan) return ShowFindings(output, output.err, loaded->diagnostics, loaded->source);
  Plan& plan = *loaded->plan;
  if (flags.lowered && !plan.lowered) plan = Lower(plan, LayoutOf(flags));
  if (output.json) {
    WriteJson(output.out, PlanAsJson(plan));
  } else {
    output.out << Print(plan);
  }
  return kOk;
}

}  // namespace stringline
