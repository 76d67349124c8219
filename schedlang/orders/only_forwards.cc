#include "schedlang/orders/only_forwards.h"

#include "schedlang/base/sl_check.h"

namespace stringline {

Plan OnlyForwards(const Plan& plan) {
  SL_CHECK(plan.rows.actions.empty()) << "the outputs of a schedule's own actions would be missing";
  Plan only = plan;
  only.forward_only = true;
  only.lowered = false;
  only.steps = only.versions = 1;
  only.microbatches /= plan.steps;
  for (Pipe& pipe : only.pipes) {
    pipe.first_microbatch /= plan.steps;
    pipe.microbatches /= plan.steps;
  }
  only.recompute.clear();
  only.overlaps.clear();
  only.costs = {};
  only.searched = {};
  only.actions.clear();
  for (int r = 0; r < plan.ranks(); ++r) {
    for (const Action& action : plan.of(RankId(r))) {
      if (action.kind != ActionKind::kForward || plan.StepOf(action) > 0) continue;
      only.actions.push_back(action);
      only.actions.back().joined = false;
    }
    only.first[r + 1] = static_cast<uint32_t>(only.actions.size());
  }
  FindRemaking(&only);
  return only;
}

}  // namespace stringline
