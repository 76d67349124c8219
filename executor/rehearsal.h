// A rehearsal: the very plan on the real interpreter, device, channels and recorder, with stage
// programs that only take time and links that are as slow as asked for. What it takes is what the
// simulator has to predict.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/link.h"
#include "schedlang/plan.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"

namespace stringline {

struct RehearsalSettings {
  LinkSpeed link;
  int64_t message_bytes = 0;  // of every message
  int steps = 5;              // an odd number has a step in the middle
  int threads = 1;            // of the device; held streams need no more
};

struct Rehearsal {
  Timeline simulated;
  Timeline measured;                  // the step whose time is the median
  std::vector<int64_t> makespans_ns;  // of every step, in order
};

// `costs` gives the durations of computations; its hop is not used: messages take what the link
// says. Takes as long as the steps take. FailedPrecondition for a plan that cannot be executed;
// errors of Device::Synchronize.
absl::StatusOr<Rehearsal> Rehearse(const Plan& lowered, const CostModel& costs,
                                   const RehearsalSettings& settings);

// The costs with messages that occupy their channel for as long as the link takes: what Rehearse
// asks the simulator for.
CostModel WithLink(const Plan& plan, CostModel costs, const RehearsalSettings& settings);

}  // namespace stringline
