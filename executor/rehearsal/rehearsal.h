// A rehearsal: the plan itself on the real interpreter, device, channels and recorder, with stage
// programs and messages that only take time. The simulator has to predict the measured time.
//
// Beside every step a control of known duration is measured: the computations alone, in rounds
// (rehearsal_control.h). A late control shows that the machine was busy with other work.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cpu/device.h"
#include "executor/engine/link.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"

namespace stringline {

struct RehearsalSettings {
  CommLayout layout = CommLayout::kEdge;
  int steps = 5;                        // an odd number has a step in the middle
  int threads = 1;                      // for the device; held streams need only one
  DeviceTime time = DeviceTime::kReal;  // kJumps: no step takes real time
};

struct Rehearsal {
  Timeline simulated;
  Timeline measured;                  // the step of median duration
  std::vector<int64_t> makespans_ns;  // for every step, in order
  int64_t control_ns = 0;             // the control's known duration
  std::vector<int64_t> controls_ns;   // its measured duration, before every step
};

// Performs the lowered plan, which passes Check for the layout; takes the time of its steps, and as
// long again for the controls. FailedPrecondition for a plan that cannot be executed; errors of
// Device::Synchronize.
absl::StatusOr<Rehearsal> Rehearse(const Plan& lowered, const CostModel& costs,
                                   const RehearsalSettings& settings);

// The part of the costs that a rehearsal performs, for the simulator: messages do not share links,
// receive buffers are not counted, and every part takes its cost. A message occupies its queues for
// its transfer and arrives its latency later, as in the simulator.
CostModel RehearsedCosts(const Plan& plan, CostModel costs);

// The costs, but a message occupies its queues for its transfer and its latency.
CostModel WithOccupyingHops(const Plan& plan, CostModel costs);
// The costs, but messages of `bytes` go over links of this speed (link.h), which they occupy for
// transfer and latency.
CostModel WithLink(const Plan& plan, CostModel costs, const LinkSpeed& link, int64_t bytes);

// The verdict on a prediction. If the median control is off by more than kMostDisturbance, the
// machine was disturbed and the prediction is not judged. Otherwise the prediction is right if the
// median step is off by at most kMostMisprediction, and wrong only if, besides, no control is off
// by more than kMostDisturbance.
enum class RehearsalVerdict : uint8_t { kRight, kWrong, kDisturbed };
inline constexpr double kMostMisprediction = 0.03;
inline constexpr double kMostDisturbance = kMostMisprediction;  // a disturbance delays the control
                                                                // at least as much

struct RehearsalJudgement {
  double misprediction = 0;  // (simulated - measured) / measured, of the makespans
  double disturbance = 0;    // (median control - known) / known
  RehearsalVerdict verdict = RehearsalVerdict::kRight;
};
RehearsalJudgement Judge(const Rehearsal& rehearsal);

}  // namespace stringline
