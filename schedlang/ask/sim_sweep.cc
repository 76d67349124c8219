#include "schedlang/ask/sim_sweep.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>

#include "schedlang/ask/sweep.h"
#include "schedlang/base/status.h"
#include "schedlang/base/threads.h"

namespace stringline {
namespace {

class SimSweep {
 public:
  SimSweep(absl::Span<const SweptSchedule> schedules, const std::vector<Parameter>& fixed,
           const SweepPoints& points, const StepCosts& costs, CommLayout layout,
           const std::function<bool()>& after_each)
      : schedules_(schedules),
        fixed_(fixed),
        points_(points),
        costs_(costs),
        layout_(layout),
        after_each_(after_each),
        steps_(schedules.size() * points.size()),
        next_(steps_.size()) {}

  absl::StatusOr<std::vector<SweptStep>> Run(int threads) {
    WorkOnThreads(threads, [this] { Work(); });
    if (!status_.ok()) return status_;
    return std::move(steps_);
  }

 private:
  // Takes points until all are taken; the last points, mostly the largest, first.
  void Work() {
    while (!failed_) {
      size_t left = next_.load();
      if (left == 0) return;
      if (!next_.compare_exchange_weak(left, left - 1)) continue;
      absl::Status status;
      try {
        status = Simulated(left - 1);
      } catch (const std::bad_alloc&) {
        status = absl::ResourceExhaustedError("not enough memory for these plans");
      }
      if (!after_each_()) status.Update(absl::CancelledError("stopped"));
      if (status.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failed_.exchange(true)) status_ = status;
    }
  }

  absl::Status Simulated(size_t index) {
    const SweptSchedule& schedule = schedules_[index / points_.size()];
    SweptStep& step = steps_[index];
    Diagnostics findings;
    std::vector<Parameter> parameters = ParametersAt(points_, index % points_.size(), fixed_);
    const std::vector<std::string> names = ParameterNames(schedule);
    parameters.erase(std::remove_if(parameters.begin(), parameters.end(),
                                    [&names](const Parameter& parameter) {
                                      return std::find(names.begin(), names.end(),
                                                       parameter.name) == names.end();
                                    }),
                     parameters.end());
    std::optional<Plan> plan = ElaboratedPlan(schedule.file, schedule.schedule, parameters,
                                              &findings, {.kept = schedule.kept.get()});
    if (!plan) {
      SetFinding(findings, &step);
      return absl::OkStatus();
    }
    SL_ASSIGN_OR_RETURN(const CostModel costs, ResolveCosts(costs_, *plan));
    plan = CheckedPlan(*std::move(plan), {.layout = layout_}, &findings, costs.collectives);
    if (!plan) {
      SetFinding(findings, &step);
      return absl::OkStatus();
    }
    SL_ASSIGN_OR_RETURN(
        const Timeline timeline,
        SimulatedStep(*plan, WiringOf(*plan, layout_, costs.receive_buffers), costs));
    step.stages = StagesOfModel(*plan);
    step.fit = OrderFitOf(*plan, costs);
    const Bubbles bubbles = MeasureBubbles(timeline);
    step.makespan_ns = bubbles.makespan_ns;
    step.bubble = bubbles.rate;
    step.busiest_bubble = bubbles.busiest_rate;
    step.idlest_bubble = bubbles.idlest_rate;
    step.span_bubble = bubbles.span_rate;
    for (const Bubbles::Rank& rank : bubbles.ranks) {
      step.peak_activations = std::max(step.peak_activations, rank.peak_activations);
    }
    for (const Action& action : plan->actions) step.actions += IsCompute(action.kind) ? 1 : 0;
    return absl::OkStatus();
  }

  static void SetFinding(const Diagnostics& findings, SweptStep* step) {
    const Diagnostic* const refusal = RefusalIn(findings);
    const auto& all = findings.findings();
    step->state = refusal != nullptr ? SweptStep::State::kRefused : SweptStep::State::kWrong;
    step->message = refusal != nullptr ? refusal->text : all.empty() ? "" : all[0].text;
  }

  const absl::Span<const SweptSchedule> schedules_;
  const std::vector<Parameter>& fixed_;
  const SweepPoints& points_;
  const StepCosts& costs_;
  const CommLayout layout_;
  const std::function<bool()>& after_each_;
  std::vector<SweptStep> steps_;
  std::atomic<size_t> next_;  // from here on they are taken
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  absl::Status status_;
};

}  // namespace

std::vector<std::string> ParameterNames(const SweptSchedule& swept) {
  return ParameterNames(swept.file, swept.schedule);
}

absl::StatusOr<std::vector<SweptStep>> SimulateAll(absl::Span<const SweptSchedule> schedules,
                                                   const std::vector<Parameter>& fixed,
                                                   const SweepPoints& points,
                                                   const StepCosts& costs, CommLayout layout,
                                                   int threads,
                                                   const std::function<bool()>& after_each) {
  return SimSweep(schedules, fixed, points, costs, layout, after_each).Run(threads);
}

}  // namespace stringline
