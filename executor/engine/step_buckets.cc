#include "executor/engine/step_buckets.h"

#include "schedlang/plan/buckets.h"

namespace stringline {

StepBuckets::StepBuckets(const Plan& plan, const Wiring& wiring, const StageWork& work) {
  if (wiring.wires.empty()) return;
  meets_.resize(plan.actions.size());
  const std::vector<uint32_t> meeters = MeetersOfBuckets(plan, wiring);
  for (uint32_t i = 0; i < meeters.size(); ++i) {
    const Action& action = plan.actions[i];
    if (meeters[i] == kNoAction || work.layers(action.stage) > 0) continue;
    if (!work.MeetsBuckets(action)) continue;
    meets_[i].inside = meeters[i];
    Meets& meeter = meets_[meeters[i]];
    (action.kind == ActionKind::kUnshard ? meeter.gather : meeter.reduce) = i;
  }
}

}  // namespace stringline
