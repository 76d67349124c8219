#include "tools/metrics/step_metrics.h"

#include <algorithm>
#include <map>

namespace stringline {
namespace {

// The rank for which this one waits longest, of one pipeline.
void AddWaits(const Plan& plan, const Timeline& timeline, const Analysis& analysis, int rank,
              int first_rank, RankMetrics* metrics) {
  std::map<int, int64_t> waited;
  const auto r = static_cast<size_t>(rank);
  for (uint32_t i = analysis.first_idle[r]; i < analysis.first_idle[r + 1]; ++i) {
    const IdleStretch& idle = analysis.idle[i];
    if (idle.waits_for < 0) continue;
    const Event& maker = timeline.events[static_cast<size_t>(idle.waits_for)];
    const int other = plan.stage(maker.stage).rank.value;
    if (other != rank) waited[other] += idle.length_ns();
  }
  for (const auto& [other, ns] : waited) {
    if (ns <= metrics->waits_for_ns) continue;
    metrics->waits_for = first_rank + other;
    metrics->waits_for_ns = ns;
  }
}

}  // namespace

void AddTimelines(const Plan& plan, const Wiring& links, absl::Span<const Timeline> measured,
                  StepMetrics* metrics) {
  const auto ranks = static_cast<size_t>(plan.ranks());
  metrics->ranks.resize(ranks * measured.size());
  metrics->causes = {};
  metrics->makespan_ns = 0;
  double bubble = 0, all_ns = 0;
  for (size_t c = 0; c < measured.size(); ++c) {
    const Timeline& timeline = measured[c];
    // In ready order the list of the plan is not the order that happened.
    const std::optional<Plan> performed = plan.window > 0 ? PlanOf(timeline) : std::nullopt;
    const Plan& of = performed ? *performed : plan;
    const Analysis analysis = performed ? Analyze(of, timeline) : Analyze(of, timeline, links);
    const Bubbles bubbles = MeasureBubbles(timeline);
    metrics->makespan_ns = std::max(metrics->makespan_ns, bubbles.makespan_ns);
    bubble += bubbles.rate;
    all_ns += static_cast<double>(bubbles.makespan_ns) * static_cast<double>(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      RankMetrics& rank = metrics->ranks[c * ranks + r];
      rank.waits_ns = bubbles.ranks[r].idle_ns;
      rank.busy = bubbles.makespan_ns == 0 ? 0
                                           : static_cast<double>(bubbles.ranks[r].busy_ns) /
                                                 static_cast<double>(bubbles.makespan_ns);
      for (const Event& event : timeline.of(RankId(static_cast<int32_t>(r)))) {
        rank.step_ns = std::max(rank.step_ns, event.end_ns);
      }
      AddWaits(of, timeline, analysis, static_cast<int>(r), static_cast<int>(c * ranks), &rank);
      for (int k = 0; k < kIdleCauses; ++k) {
        metrics->causes[static_cast<size_t>(k)] +=
            static_cast<double>(analysis.causes[r][static_cast<size_t>(k)]);
      }
    }
  }
  metrics->bubble = measured.empty() ? 0 : bubble / static_cast<double>(measured.size());
  for (double& cause : metrics->causes) cause = all_ns > 0 ? cause / all_ns : 0;
}

}  // namespace stringline
