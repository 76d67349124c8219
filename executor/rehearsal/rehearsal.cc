#include "executor/rehearsal/rehearsal.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "executor/cpu/device.h"
#include "executor/cpu/threads_group.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/message_name.h"
#include "executor/engine/recorder.h"
#include "executor/engine/when_ready.h"
#include "executor/rehearsal/held_device.h"
#include "executor/rehearsal/held_stages.h"
#include "executor/rehearsal/rehearsal_control.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/lower/lower.h"
#include "schedlang/sim/ready_order.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

std::vector<Hop> HopsOf(const Plan& plan, const CostModel& costs, const std::vector<Hop>& hops) {
  return hops.empty() ? std::vector<Hop>(plan.graph.edges().size(), {costs.hop, 0}) : hops;
}

// The time for which a plan's messages occupy their channels, and its reductions.
struct HeldCalls {
  const Plan& plan;
  const CostModel& costs;
  const HeldStages* stages = nullptr;
};

int64_t HeldCallNs(const void* self, absl::Span<const Call* const> met) {
  const auto& times = *static_cast<const HeldCalls*>(self);
  if (met[0]->kind == CallKind::kAllReduce) return times.stages->ReductionNs(met[0]->name.index);
  if (met[0]->kind == CallKind::kAllGather) return times.stages->OwnNs(met[0]->name.index);
  const MessageName name = NameOfMessage(times.plan, met[0]->name.index);
  const Edge& edge = times.plan.graph.edges()[static_cast<size_t>(name.edge)];
  const Action send = {.kind = name.gradient ? ActionKind::kSendBackward : ActionKind::kSendForward,
                       .stage = name.gradient ? edge.to : edge.from,
                       .microbatch = name.microbatch};
  return HopOf(times.costs, edge, send).transfer_ns;
}

// The index of the median; of equal numbers the earlier comes first.
size_t MiddleOf(const std::vector<int64_t>& numbers) {
  std::vector<size_t> order(numbers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  return order[order.size() / 2];
}

}  // namespace

CostModel WithLink(const Plan& plan, CostModel costs, const LinkSpeed& link, int64_t bytes) {
  costs.activation_hops.assign(plan.graph.edges().size(), {0, link.TransferNs(bytes)});
  costs.gradient_hops = costs.activation_hops;
  return costs;
}

CostModel WithOccupyingHops(const Plan& plan, CostModel costs) {
  for (std::vector<Hop>* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
    *hops = HopsOf(plan, costs, *hops);
    for (Hop& hop : *hops) hop = {0, hop.all_ns()};
  }
  return costs;
}

CostModel RehearsedCosts(const Plan& plan, CostModel costs) {
  for (std::vector<Hop>* const hops : {&costs.activation_hops, &costs.gradient_hops}) {
    for (Hop& hop : *hops) hop.link = -1;
  }
  costs.receive_buffers = 0;
  if (costs.part_jitter > 0) {
    costs.part_jitter = 0;
    PriceGroups(plan, &costs);
  }
  return costs;
}

absl::StatusOr<Rehearsal> Rehearse(const Plan& lowered, const CostModel& asked,
                                   const RehearsalSettings& settings) {
  SL_CHECK(settings.steps >= 1) << settings.steps;
  const CostModel costs = RehearsedCosts(lowered, asked);
  Rehearsal rehearsal;
  const Wiring wiring = WiringOf(lowered, settings.layout);
  if (lowered.window > 0) {
    SL_RETURN_IF_ERROR(CheckReadyCosts(costs));
    SL_ASSIGN_OR_RETURN(rehearsal.simulated, Simulate(Lower(PerformedAt(lowered, costs)), costs));
  } else {
    SL_ASSIGN_OR_RETURN(rehearsal.simulated, Simulate(lowered, wiring, costs));
  }
  SL_ASSIGN_OR_RETURN(const auto owned, CpuDevice::Make(settings.threads, nullptr, settings.time));
  HeldDevice device(owned.get());
  HeldCalls times = {lowered, costs};
  ThreadGroups groups(owned.get(), {HeldCallNs, &times});
  HeldStages stages(lowered, costs, &groups);
  times.stages = &stages;
  SL_ASSIGN_OR_RETURN(const auto control, RehearsalControl::Make(lowered, costs, stages,
                                                                 settings.threads, settings.time));
  rehearsal.control_ns = control->known_ns();
  Recorder recorder(lowered);
  SL_ASSIGN_OR_RETURN(auto step, Interpreter::Make(lowered, &stages, &device, &groups, &recorder,
                                                   {.layout = settings.layout, .links = &wiring}));
  std::vector<Timeline> timelines;
  for (int i = 0; i < settings.steps; ++i) {
    SL_ASSIGN_OR_RETURN(const int64_t control_ns, control->Run());
    rehearsal.controls_ns.push_back(control_ns);
    recorder.StartStep(device.NowNs());
    step->EnqueueStep();
    SL_RETURN_IF_ERROR(device.Synchronize());
    timelines.push_back(WhenReady(lowered, wiring, recorder.Observed(lowered)));
    rehearsal.makespans_ns.push_back(MeasureBubbles(timelines.back()).makespan_ns);
  }
  rehearsal.measured = std::move(timelines[MiddleOf(rehearsal.makespans_ns)]);
  return rehearsal;
}

RehearsalJudgement Judge(const Rehearsal& rehearsal) {
  const auto over = [](int64_t a, int64_t b) {  // a - b, as a share of b
    return b == 0 ? 0 : static_cast<double>(a - b) / static_cast<double>(b);
  };
  RehearsalJudgement judgement;
  judgement.misprediction = over(MeasureBubbles(rehearsal.simulated).makespan_ns,
                                 MeasureBubbles(rehearsal.measured).makespan_ns);
  judgement.disturbance =
      over(rehearsal.controls_ns[MiddleOf(rehearsal.controls_ns)], rehearsal.control_ns);
  if (std::fabs(judgement.disturbance) > kMostDisturbance) {
    judgement.verdict = RehearsalVerdict::kDisturbed;
  } else if (std::fabs(judgement.misprediction) > kMostMisprediction) {
    const bool quiet = std::all_of(
        rehearsal.controls_ns.begin(), rehearsal.controls_ns.end(), [&](int64_t took_ns) {
          return std::fabs(over(took_ns, rehearsal.control_ns)) <= kMostDisturbance;
        });
    judgement.verdict = quiet ? RehearsalVerdict::kWrong : RehearsalVerdict::kDisturbed;
  }
  return judgement;
}

}  // namespace stringline
