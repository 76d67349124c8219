#include "executor/rehearsal.h"

#include <algorithm>
#include <utility>

#include "executor/cpu/device.h"
#include "executor/held_stages.h"
#include "executor/interpreter.h"
#include "executor/recorder.h"
#include "executor/threads/transport.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/sim/simulate.h"

namespace stringline {

CostModel WithLink(const Plan& plan, CostModel costs, const RehearsalSettings& settings) {
  const Hop hop = {0, settings.link.TransferNs(settings.message_bytes)};
  costs.activation_hops.assign(plan.stages.size(), hop);
  costs.gradient_hops = costs.activation_hops;
  return costs;
}

absl::StatusOr<Rehearsal> Rehearse(const Plan& lowered, const CostModel& costs,
                                   const RehearsalSettings& settings) {
  SL_CHECK(settings.steps >= 1) << settings.steps;
  Rehearsal rehearsal;
  SL_ASSIGN_OR_RETURN(rehearsal.simulated, Simulate(lowered, WithLink(lowered, costs, settings)));
  CpuDevice device(settings.threads);
  const Channels channels = ChannelsOf(lowered);
  ThreadTransport transport(&device, static_cast<int>(channels.all.size()), settings.link);
  HeldStages stages(lowered, costs, settings.message_bytes);
  Recorder recorder(lowered);
  SL_ASSIGN_OR_RETURN(auto step,
                      Interpreter::Make(lowered, &stages, &device, &transport, &recorder));
  std::vector<Timeline> timelines;
  for (int i = 0; i < settings.steps; ++i) {
    recorder.StartStep();
    step->EnqueueStep();
    SL_RETURN_IF_ERROR(device.Synchronize());
    timelines.push_back(recorder.Measured(lowered));
    rehearsal.makespans_ns.push_back(MeasureBubbles(timelines.back()).makespan_ns);
  }
  std::vector<int> order(settings.steps);
  for (int i = 0; i < settings.steps; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::make_pair(rehearsal.makespans_ns[a], a) <
           std::make_pair(rehearsal.makespans_ns[b], b);
  });
  rehearsal.measured = std::move(timelines[order[settings.steps / 2]]);
  return rehearsal;
}

}  // namespace stringline
