#include "schedlang/orders/repeat_steps.h"

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
    if (!IsCompute(action.kind)) continue;
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

}  // namespace

Plan RepeatSteps(const Plan& plan, int steps) {
  SL_CHECK(plan.steps == 1 && !plan.lowered && steps >= 1) << plan.steps << " " << steps;
  if (steps == 1) return plan;
  const bool has_updates = HasUpdates(plan);
  Plan out = plan;
  out.steps = steps;
  out.microbatches *= steps;
  for (Pipe& pipe : out.pipes) {
    pipe.first_microbatch *= steps;
    pipe.microbatches *= steps;
  }
  out.actions.clear();
  out.first = {0};
  for (int r = 0; r < plan.ranks(); ++r) {
    const absl::Span<const Action> step = plan.of(RankId(r));
    const std::vector<Action> updates =
        has_updates ? std::vector<Action>() : UpdatesOf(plan, RankId(r));
    for (int k = 0; k < steps; ++k) {
      for (const absl::Span<const Action> row : {step, absl::MakeConstSpan(updates)}) {
        for (Action action : row) {
          const bool of_microbatch = IsOfMicrobatch(action.kind);
          if (of_microbatch) action.microbatch.value += k * plan.microbatches_of(action.stage);
          if (action.kind == ActionKind::kUpdate) action.microbatch.value += k;
          out.actions.push_back(action);
        }
      }
    }
    out.first.push_back(static_cast<uint32_t>(out.actions.size()));
  }
  return out;
}

}  // namespace stringline
