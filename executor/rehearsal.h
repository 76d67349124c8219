// A rehearsal: the very plan on the real interpreter, device, channels and recorder, with stage
// programs and messages that only take time. What it takes is what the simulator has to predict.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cpu/device.h"
#include "executor/link.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"

namespace stringline {

struct RehearsalSettings {
  CommLayout layout = CommLayout::kEdge;
  int steps = 5;                        // an odd number has a step in the middle
  int threads = 1;                      // of the device; held streams need no more
  DeviceTime time = DeviceTime::kReal;  // kJumps: no step takes real time
};

struct Rehearsal {
  Timeline simulated;
  Timeline measured;                  // the step whose time is the median
  std::vector<int64_t> makespans_ns;  // of every step, in order
};

// Performs the lowered plan, which passes Check for the layout; takes as long as its steps take.
// FailedPrecondition for a plan that cannot be executed; errors of Device::Synchronize.
absl::StatusOr<Rehearsal> Rehearse(const Plan& lowered, const CostModel& costs,
                                   const RehearsalSettings& settings);

// What a rehearsal makes of costs, and the simulator is asked for: a message occupies its queues
// for its latency too.
CostModel RehearsedCosts(const Plan& plan, CostModel costs);

// The costs, but messages of so many bytes go over links of this speed.
CostModel WithLink(const Plan& plan, CostModel costs, const LinkSpeed& link, int64_t bytes);

}  // namespace stringline
