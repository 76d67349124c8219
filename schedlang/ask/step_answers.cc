// Analyses a step; what-ifs and jitter simulate the step again with other costs, on the same links.
#include "schedlang/ask/step_answers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/report/period.h"
#include "schedlang/report/variations.h"
#include "schedlang/sim/simulate.h"

namespace stringline {
namespace {

// "F&B" for a group, "messages" for those.
std::string NameOnPath(const Timeline& timeline, uint32_t event) {
  const std::vector<Event>& events = timeline.events;
  if (IsMessage(events[event].kind)) return "messages";
  std::string name = PrintedKind(timeline.rows, events[event].kind);
  for (uint32_t i = event + 1; i < events.size() && events[i].joined; ++i) {
    absl::StrAppend(&name, "&", PrintedKind(timeline.rows, events[i].kind));
  }
  return name;
}

// Every moment of the step counts for the last event of the path that had begun; of an event that
// began with the first bucket of the event before (plan/buckets.h), and then waited for its others,
// what lies behind that event.
void ComposeCriticalPath(const Timeline& timeline, TimeReport* report) {
  const std::vector<uint32_t>& path = report->analysis.critical;
  int64_t from_ns = path.empty() ? 0 : timeline.events[path[0]].start_ns;
  for (size_t k = 0; k < path.size(); ++k) {
    const Event& event = timeline.events[path[k]];
    int64_t until_ns = event.end_ns;
    if (k + 1 < path.size()) {
      const Event& next = timeline.events[path[k + 1]];
      until_ns =
          next.waited_ns > 0 ? std::clamp(event.end_ns, next.start_ns, next.end_ns) : next.start_ns;
    }
    const std::string name = NameOnPath(timeline, path[k]);
    auto& parts = report->critical_ns;
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&name](const auto& known) { return known.first == name; });
    if (part == parts.end()) part = parts.insert(parts.end(), {name, 0});
    part->second += std::max<int64_t>(until_ns - from_ns, 0);
    from_ns = std::max(from_ns, until_ns);
  }
}

absl::Status AddVariations(const JitterRuns& jitter, const WatchRuns& watch, const Session& step,
                           TimeReport* report) {
  const Plan& plan = *step.plan;
  const CostModel& costs = *step.costs;
  report->bound = LowerBoundOf(plan, costs);
  if (step.issue == MessageIssue::kEarly) {
    report->period_ns = PeriodOf(plan, costs, step.timeline->layout);
  }
  const Wiring& wiring = *step.links;
  report->balance = BalanceOf(plan, wiring, costs);
  for (const Variation& variation : WhatIf(plan, costs)) {
    if (!watch(-1)) return absl::CancelledError("stopped");
    SL_ASSIGN_OR_RETURN(const Timeline timeline, Simulate(plan, wiring, variation.costs));
    report->what_if.push_back({variation.name, MakespanOf(timeline)});
  }
  SL_ASSIGN_OR_RETURN(const std::vector<CopiesWhatIf> of_copies, WhatIfCopies(step));
  report->what_if.insert(report->what_if.end(), of_copies.begin(), of_copies.end());
  SL_ASSIGN_OR_RETURN(const Timeline without, Simulate(plan, wiring, WithoutCollectives(costs)));
  report->collectives.without_ns = MakespanOf(without);
  if (!HasJitter(costs)) return absl::OkStatus();
  report->seed = jitter.seed;
  int run = 0;
  SL_ASSIGN_OR_RETURN(JitteredSteps steps,
                      StepsUnderJitter(step, jitter, 0, [&] { return watch(run++); }));
  report->runs_ns = std::move(step.listed ? steps.ready_ns : steps.listed_ns);
  std::sort(report->runs_ns.begin(), report->runs_ns.end());
  return absl::OkStatus();
}

}  // namespace

Analysis AnalysisOf(const Session& step) {
  return Analyze(*step.plan, *step.timeline, *step.links);
}

absl::StatusOr<TimeReport> MakeReport(const Session& step, const JitterRuns& jitter,
                                      const WatchRuns& watch) {
  TimeReport report;
  const Timeline& timeline = *step.timeline;
  report.bubbles = MeasureBubbles(timeline);
  report.analysis = AnalysisOf(step);
  ComposeCriticalPath(timeline, &report);
  const std::vector<StageMemory> none;
  report.memory = MemoryOver(*step.plan, timeline, step.costs ? step.costs->memory : none);
  report.capacity = step.costs ? step.costs->capacity : 0;
  report.overfull = FindOverfull(report.memory, report.capacity);
  report.collectives.waits = MeasureCollectives(*step.plan, timeline, *step.links);
  report.collectives.makespan_ns = report.analysis.makespan_ns;
  report.collectives.after_ns = step.costs ? AfterStepNs(*step.plan, *step.costs) : 0;
  if (!timeline.parts.empty()) report.network = MeasureNetwork(*step.plan, timeline, *step.links);
  if (step.costs) {
    SL_RETURN_IF_ERROR(AddVariations(jitter, watch, step, &report));
  }
  return report;
}

absl::StatusOr<Explanation> Explained(const Session& step, const std::string& name) {
  if (step.issue == MessageIssue::kAsWritten) {
    return absl::InvalidArgumentError(
        absl::StrCat(step.source.path(),
                     ": its messages are issued as written, and only where they "
                     "go as early as they can is a start explained"));
  }
  SL_ASSIGN_OR_RETURN(const uint32_t action, FindAction(*step.plan, name));
  return Explain(*step.plan, *step.timeline, *step.links, *step.costs, action);
}

Comparison Compared(const Session& first, const Session& second) {
  return {first, second,
          DifferenceOf(*first.timeline, AnalysisOf(first), *second.timeline, AnalysisOf(second))};
}

}  // namespace stringline
