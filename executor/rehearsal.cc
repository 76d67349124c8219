#include "executor/rehearsal.h"

#include <algorithm>
#include <utility>

#include "executor/cpu/device.h"
#include "executor/held_device.h"
#include "executor/held_stages.h"
#include "executor/interpreter.h"
#include "executor/recorder.h"
#include "executor/threads/group.h"
#include "executor/when_ready.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

// How long the messages of a plan take, by the stage that computed what they carry, and its
// reductions.
struct HeldCalls {
  const Plan& plan;
  const CostModel& costs;
  const HeldStages* stages = nullptr;
};

int64_t HeldCallNs(const void* self, absl::Span<const Call* const> met) {
  const auto& times = *static_cast<const HeldCalls*>(self);
  if (met[0]->kind == CallKind::kAllReduce) return times.stages->ReductionNs(met[0]->name.index);
  const MessageName name = NameOfMessage(times.plan, met[0]->name.index);
  return (name.gradient ? times.costs.gradient_hops
                        : times.costs.activation_hops)[name.producer.value]
      .all_ns();
}

}  // namespace

CostModel WithLink(const Plan& plan, CostModel costs, const LinkSpeed& link, int64_t bytes) {
  const Hop hop = {link.latency_ns, link.TransferNs(bytes) - link.latency_ns};
  costs.activation_hops.assign(plan.stages.size(), hop);
  costs.gradient_hops = costs.activation_hops;
  return costs;
}

CostModel RehearsedCosts(const Plan& plan, CostModel costs) {
  for (std::vector<Hop>* hops : {&costs.activation_hops, &costs.gradient_hops}) {
    if (hops->empty()) hops->assign(plan.stages.size(), {costs.hop, 0});
    for (Hop& hop : *hops) hop = {0, hop.all_ns()};
  }
  return costs;
}

absl::StatusOr<Rehearsal> Rehearse(const Plan& lowered, const CostModel& asked,
                                   const RehearsalSettings& settings) {
  SL_CHECK(settings.steps >= 1) << settings.steps;
  const CostModel costs = RehearsedCosts(lowered, asked);
  Rehearsal rehearsal;
  SL_ASSIGN_OR_RETURN(rehearsal.simulated, Simulate(lowered, costs, settings.layout));
  SL_ASSIGN_OR_RETURN(const auto owned, CpuDevice::Make(settings.threads, nullptr, settings.time));
  HeldDevice device(owned.get());
  HeldCalls times = {lowered, costs};
  ThreadGroups groups(owned.get(), {HeldCallNs, &times});
  HeldStages stages(lowered, costs, &groups);
  times.stages = &stages;
  Recorder recorder(lowered);
  SL_ASSIGN_OR_RETURN(auto step, Interpreter::Make(lowered, &stages, &device, &groups, &recorder,
                                                   {.layout = settings.layout}));
  const Wiring wiring = WiringOf(lowered, settings.layout);
  std::vector<Timeline> timelines;
  for (int i = 0; i < settings.steps; ++i) {
    recorder.StartStep(device.NowNs());
    step->EnqueueStep();
    SL_RETURN_IF_ERROR(device.Synchronize());
    timelines.push_back(WhenReady(lowered, wiring, recorder.Observed(lowered)));
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
