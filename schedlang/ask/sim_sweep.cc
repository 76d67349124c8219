// Each plan goes the way of a single simulation (session.h): costs, collectives, check, links,
// simulation. Of a step only its figures are kept, so a sweep of a million steps fits into memory.
#include "schedlang/ask/sim_sweep.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "schedlang/base/status.h"
#include "schedlang/costs/own_costs.h"

namespace stringline {
namespace {

void SetFinding(const Diagnostics& findings, SweptStep* step) {
  const Diagnostic* const refusal = RefusalIn(findings);
  const auto& all = findings.findings();
  step->state = refusal != nullptr ? SweptStep::State::kRefused : SweptStep::State::kWrong;
  step->message = refusal != nullptr ? refusal->text : all.empty() ? "" : all[0].text;
}

void SetFigures(const Plan& plan, const CostModel& costs, const Timeline& timeline,
                SweptStep* step) {
  step->stages = StagesOfModel(plan);
  step->slices = plan.slices;
  step->fit = OrderFitOf(plan, costs);
  const Bubbles bubbles = MeasureBubbles(timeline);
  step->makespan_ns = bubbles.makespan_ns;
  step->bubble = bubbles.rate;
  step->busiest_bubble = bubbles.busiest_rate;
  step->idlest_bubble = bubbles.idlest_rate;
  step->span_bubble = bubbles.span_rate;
  for (const Bubbles::Rank& rank : bubbles.ranks) {
    step->peak_activations = std::max(step->peak_activations, rank.peak_activations);
  }
  for (const Action& action : plan.actions) step->actions += IsCompute(action.kind) ? 1 : 0;
}

absl::Status Simulated(std::optional<Plan> plan, const StepCosts& step_costs, CommLayout layout,
                       Diagnostics* findings, SweptStep* step) {
  CostModel costs;
  if (plan) {
    SL_ASSIGN_OR_RETURN(costs, ResolveCosts(step_costs, *plan));
    SL_ASSIGN_OR_RETURN(plan, PlanPerformed(*std::move(plan), {.layout = layout}, costs, findings));
  }
  if (plan) {
    plan = CheckedPlan(*std::move(plan), {.layout = layout}, findings, costs.collectives);
  }
  if (!plan) {
    SetFinding(*findings, step);
    return absl::OkStatus();
  }
  SL_ASSIGN_OR_RETURN(const Timeline timeline,
                      SimulatedStep(*plan, WiringOf(*plan, layout, costs.receive_buffers), costs));
  SetFigures(*plan, costs, timeline, step);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SweptStep>> SimulateAll(const Sweep& sweep, const StepCosts& costs,
                                                   CommLayout layout, int threads,
                                                   const std::function<bool()>& after_each) {
  std::vector<SweptStep> steps(sweep.plans());
  StepCosts of_all = costs;
  UnknownKeys unknown = std::exchange(of_all.spec.unless_own, {});
  const bool asks = !unknown.empty();
  bool has_plans = false;
  std::mutex mutex;
  SL_RETURN_IF_ERROR(ForEachPlan(
      sweep,
      [&](size_t index, std::optional<Plan> plan, Diagnostics* findings) {
        if (plan && asks) {
          const std::scoped_lock lock(mutex);
          has_plans = true;
          DropOwnKeys(*plan, &unknown);
        }
        return Simulated(std::move(plan), of_all, layout, findings, &steps[index]);
      },
      threads, after_each));
  if (has_plans) SL_RETURN_IF_ERROR(CheckNoneLeft(unknown));
  return steps;
}

}  // namespace stringline
