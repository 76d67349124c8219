#include "executor/engine/step_buckets.h"

#include "schedlang/plan/buckets.h"

namespace stringline {

StepBuckets::StepBuckets(const Plan& plan, const Wiring& wiring, const StageWork& work) {
  if (wiring.wires.empty()) return;
  meets_.resize(plan.actions.size());
  const std::vector<uint32_t>& meeters = wiring.meeters;
  for (uint32_t i = 0; i < meeters.size(); ++i) {
    const Action& action = plan.actions[i];
    if (meeters[i] == kNoAction || !work.MeetsBuckets(action)) continue;
    const bool reduces = action.kind == ActionKind::kReduceGrad;
    if (work.layers(action.stage) > 0 ? !reduces : !IsAlone(plan, meeters[i])) continue;
    meets_[i].inside = meeters[i];
    Meets& meeter = meets_[meeters[i]];
    (reduces ? meeter.reduce : meeter.gather) = i;
  }
}

}  // namespace stringline
