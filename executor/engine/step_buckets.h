// The meetings of a step's computations with the buckets of collectives (plan/buckets.h), and the
// events between them: at the end of each bucket of an UNSHARD, and at the end of the piece of a
// computation that gives the gradients of each bucket of a REDUCE_GRAD.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/engine/recorder.h"
#include "executor/engine/stage_work.h"
#include "schedlang/plan/links.h"
#include "schedlang/plan/plan.h"

namespace stringline {

class StepBuckets {
 public:
  // `wiring` is empty for a plan without collectives: then nothing meets.
  StepBuckets(const Plan& plan, const Wiring& wiring, const StageWork& work);

  // The collectives that the computation plan.actions[i] meets, or kNoAction. Several computations
  // of a group, of a stage with layers, may meet an UNSHARD.
  uint32_t gather_of(uint32_t i) const { return meets_.empty() ? kNoAction : meets_[i].gather; }
  uint32_t reduce_of(uint32_t i) const { return meets_.empty() ? kNoAction : meets_[i].reduce; }
  // The first computation that meets the collective, or kNoAction.
  uint32_t inside(uint32_t collective) const { return meets_[collective].inside; }

  // By bucket: the event, and the times of the work that it ends.
  struct BucketEvent {
    int32_t event = -1;
    const CommandTimes* times = nullptr;
  };
  std::vector<BucketEvent>& events(uint32_t collective) { return meets_[collective].events; }
  // The event behind the first `buckets` of an UNSHARD; null if its computations have met it
  // already, on their one stream.
  const BucketEvent* Meet(uint32_t gather, size_t buckets);

 private:
  struct Meets {
    uint32_t gather = kNoAction, reduce = kNoAction;  // for a computation
    uint32_t inside = kNoAction;                      // for a collective
    std::vector<BucketEvent> events;                  // the same
    size_t met = 0;                                   // for an UNSHARD: the first so many
  };
  std::vector<Meets> meets_;  // by action
};

}  // namespace stringline
