// Stage programs that compute nothing and take exactly as long as they are said to: they hold their
// stream, and no thread.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/stage_work.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"

namespace stringline {

class HeldStages final : public StageWork {
 public:
  // Every group of the plan holds each lane it uses for its cost (costs.h), whatever its parts
  // would cost alone. Messages are empty. No stage performs an action twice.
  HeldStages(const Plan& plan, const CostModel& costs);

  Work Compute(const Action& action, int lane) override;
  int64_t HoldNs(const Action& action, int lane) override;
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }

 private:
  size_t Index(const Action& action) const;

  const size_t stages_;
  const size_t microbatches_;
  // By kind, stage and microbatch: the cost of the group for the first of its parts on a lane, 0
  // for others.
  std::vector<int64_t> hold_ns_;
};

}  // namespace stringline
