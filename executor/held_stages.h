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
  // would cost alone. Every message has `message_bytes` bytes, which are nowhere. The plan passes
  // Check: no stage performs an action twice.
  HeldStages(const Plan& plan, const CostModel& costs, int64_t message_bytes);

  Work Compute(const Action& action, int lane) override;
  int64_t HoldNs(const Action& action, int lane) override;
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {nullptr, message_bytes_}; }

 private:
  size_t Index(const Action& action) const;

  const size_t stages_;
  const size_t microbatches_;
  const int64_t message_bytes_;
  // By kind, stage and microbatch: the cost of the group for the first of its parts on a lane, 0
  // for others.
  std::vector<int64_t> hold_ns_;
};

}  // namespace stringline
