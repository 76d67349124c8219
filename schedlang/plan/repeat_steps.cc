#include "schedlang/plan/repeat_steps.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// The UPDATEs of the rank's stages, by their first computations; each has the place of the stage's
// last one.
std::vector<Action> UpdatesOf(const Plan& plan, RankId rank) {
  std::vector<Action> updates;
  std::vector<size_t> of_stage(plan.stages.size(), 0);  // one past its index in `updates`
  for (const Action& action : plan.of(rank)) {
    if (!ComputesMicrobatch(action.kind)) continue;
    size_t& own = of_stage[static_cast<size_t>(action.stage.value)];
    if (own == 0) {
      updates.push_back(action);
      own = updates.size();
    }
    updates[own - 1] = action;
  }
  for (Action& update : updates) {
    update.kind = ActionKind::kUpdate;
    update.joined = false;
    update.microbatch = MicrobatchId(0);
  }
  return updates;
}

// The plan with the UPDATEs of all its stages behind their ranks' actions.
Plan WithUpdates(Plan plan) {
  std::vector<Action> actions;
  std::vector<uint32_t> first = {0};
  for (int r = 0; r < plan.ranks(); ++r) {
    for (const Action& action : plan.of(RankId(r))) actions.push_back(action);
    for (const Action& update : UpdatesOf(plan, RankId(r))) actions.push_back(update);
    first.push_back(static_cast<uint32_t>(actions.size()));
  }
  plan.actions = std::move(actions);
  plan.first = std::move(first);
  return plan;
}

void Multiply(Plan* plan, int by) {
  plan->microbatches *= by;
  for (Pipe& pipe : plan->pipes) {
    pipe.first_microbatch *= by;
    pipe.microbatches *= by;
  }
}

}  // namespace

void CountStepsAndSlices(Plan* plan) { Multiply(plan, plan->steps * plan->slices); }

Plan RepeatActions(const Plan& plan, int steps) {
  SL_CHECK(plan.steps == 1 && steps >= 1) << plan.steps << " " << steps;
  Plan out = plan;
  out.steps = steps;
  Multiply(&out, steps);
  out.actions.clear();
  out.first = {0};
  for (int r = 0; r < plan.ranks(); ++r) {
    for (int k = 0; k < steps; ++k) {
      for (Action action : plan.of(RankId(r))) {
        const bool of_microbatch = IsOfMicrobatch(action.kind);
        if (of_microbatch) action.microbatch.value += k * plan.microbatches_of(action.stage);
        if (action.kind == ActionKind::kUpdate) action.microbatch.value += k;
        out.actions.push_back(action);
      }
    }
    out.first.push_back(static_cast<uint32_t>(out.actions.size()));
  }
  return out;
}

Plan RepeatSteps(const Plan& plan, int steps) {
  SL_CHECK(!plan.lowered);
  if (steps == 1) return plan;
  return RepeatActions(HasUpdates(plan) ? plan : WithUpdates(plan), steps);
}

}  // namespace stringline
