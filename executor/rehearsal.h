// A rehearsal: the very plan on the real interpreter, device, channels and recorder, with stage
// programs and messages that only take time. What it takes is what the simulator has to predict.
//
// Beside every step a control is measured, whose time is known: the computations alone, in rounds
// (rehearsal_control.h). A machine that is late there had something else to do.
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
  int64_t control_ns = 0;             // what the control takes
  std::vector<int64_t> controls_ns;   // what it took, before every step
};

// Performs the lowered plan, which passes Check for the layout; takes as long as its steps take,
// and as long again for the controls. FailedPrecondition for a plan that cannot be executed; errors
// of Device::Synchronize.
absl::StatusOr<Rehearsal> Rehearse(const Plan& lowered, const CostModel& costs,
                                   const RehearsalSettings& settings);

// Of the costs what a rehearsal performs, and the simulator is asked for: messages do not share
// links, and receive buffers are not counted. A message occupies its queues for its transfer and
// arrives its latency later, as in the simulator.
CostModel RehearsedCosts(CostModel costs);

// The costs, but a message occupies its queues for all that it takes.
CostModel WithOccupyingHops(const Plan& plan, CostModel costs);
// The costs, but messages of so many bytes go over links of this speed (link.h), which they occupy
// for all that they take.
CostModel WithLink(const Plan& plan, CostModel costs, const LinkSpeed& link, int64_t bytes);

// What a rehearsal says of the prediction. The control speaks first: where its median is off by
// more than kMostDisturbance, nothing is said of the prediction. Otherwise that is right when the
// median step is off by no more than kMostMisprediction. It is wrong only where none of the
// controls is off by more than kMostDisturbance.
enum class RehearsalVerdict : uint8_t { kRight, kWrong, kDisturbed };
inline constexpr double kMostMisprediction = 0.03;
inline constexpr double kMostDisturbance = kMostMisprediction;  // it is late at least as much

struct RehearsalJudgement {
  double misprediction = 0;  // (simulated - measured) / measured, of the makespans
  double disturbance = 0;    // (median control - known) / known
  RehearsalVerdict verdict = RehearsalVerdict::kRight;
};
RehearsalJudgement Judge(const Rehearsal& rehearsal);

}  // namespace stringline
