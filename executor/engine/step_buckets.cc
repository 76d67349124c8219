#include "executor/engine/step_buckets.h"

#include <algorithm>

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
    if (work.layers(action.stage) == 0 && !IsAlone(plan, meeters[i])) continue;
    meets_[i].inside = meeters[i];
    if (reduces) {
      meets_[meeters[i]].reduce = i;
      continue;
    }
    const auto group = GroupAt(absl::MakeConstSpan(plan.actions), meeters[i]);
    for (uint32_t k = meeters[i]; k < meeters[i] + group.size(); ++k) {
      if (wiring.wires[k].gathered == i) meets_[k].gather = i;
    }
  }
}

const StepBuckets::BucketEvent* StepBuckets::Meet(uint32_t gather, size_t buckets) {
  Meets& unshard = meets_[gather];
  buckets = std::min(buckets, unshard.events.size());
  if (buckets <= unshard.met) return nullptr;
  unshard.met = buckets;
  return &unshard.events[buckets - 1];
}

}  // namespace stringline
