// A sweep of simulations is listed before it begins, so that mistakes are told at once and progress
// knows its end; its JSON has a point for each combination of values, and in it every schedule.
#include "tools/answers/sim_sweep.h"

#include <utility>

#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"
#include "tools/answers/order_note.h"
#include "tools/answers/slow_note.h"

namespace stringline {

absl::StatusOr<std::optional<SimSweepReport>> ListSimSweep(const SimSweepQuestion& question,
                                                           std::optional<BrokenFile>* broken) {
  SimSweepReport report;
  SL_ASSIGN_OR_RETURN(std::optional<Sweep> sweep, ListSweep(question.plans, broken));
  if (!sweep) return std::nullopt;
  report.sweep = *std::move(sweep);
  SL_ASSIGN_OR_RETURN(report.costs, FindCosts(question.costs));
  return report;
}

absl::Status SimulateListed(CommLayout layout, const std::function<bool()>& after_each,
                            SimSweepReport* report) {
  const int64_t start_ns = NowNs();
  SL_ASSIGN_OR_RETURN(report->steps, SimulateAll(report->sweep, report->costs, layout,
                                                 /*threads=*/0, after_each));
  report->elapsed_s = static_cast<double>(NowNs() - start_ns) / 1e9;
  return absl::OkStatus();
}

Json SimSweepAsJson(const SimSweepReport& report, SpellField spell) {
  Json points = Json::array();
  for (size_t p = 0; p < report.sweep.points.size(); ++p) {
    Json point = {{"parameters", Json::object()}, {"schedules", Json::array()}};
    for (size_t i = 0; i < report.sweep.points.names.size(); ++i) {
      point["parameters"][report.sweep.points.names[i]] = report.sweep.points.at(p)[i];
    }
    for (size_t s = 0; s < report.sweep.schedules.size(); ++s) {
      const SweptStep& step = report.At(s, p);
      Json entry = {{"schedule", report.sweep.schedules[s].name}};
      if (step.state == SweptStep::State::kSimulated) {
        entry["makespan_us"] = Microseconds(step.makespan_ns);
        entry["bubble"] = step.bubble;
        entry["busiest_bubble"] = step.busiest_bubble;
        entry["idlest_bubble"] = step.idlest_bubble;
        entry["span_bubble"] = step.span_bubble;
        entry["peak_activations"] = ActivationsAsJson(step.slices, step.peak_activations);
        entry["actions"] = step.actions;
        entry["stages"] = step.stages;
        if (step.fit != OrderFit::kNoCosts) entry["ordered_for"] = NameOf(step.fit);
      } else {
        entry[step.state == SweptStep::State::kRefused ? "refused" : "wrong"] =
            WithFields(step.message, spell);
      }
      point["schedules"].push_back(std::move(entry));
    }
    points.push_back(std::move(point));
  }
  Json json = {{"ok", true},
               {"points", std::move(points)},
               {"elapsed_s", report.elapsed_s},
               {"steps_per_second", static_cast<double>(report.steps.size()) / report.elapsed_s}};
  AddSlow(report.costs, &json);
  return json;
}

}  // namespace stringline
