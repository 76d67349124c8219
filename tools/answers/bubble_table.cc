#include "tools/answers/bubble_table.h"

#include <array>

#include "absl/strings/str_format.h"
#include "schedlang/report/period.h"
#include "tools/answers/order_note.h"
#include "tools/answers/slow_note.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

Json CausesAsJson(const std::array<int64_t, kIdleCauses>& causes) {
  Json object = Json::object();
  for (int c = 0; c < kIdleCauses; ++c) {
    object[NameOf(static_cast<IdleCause>(c))] = Microseconds(causes[c]);
  }
  return object;
}

}  // namespace

Json BubblesAsJson(const Session& step, const Bubbles& bubbles, const CausesByRank& causes) {
  const Timeline& timeline = *step.timeline;
  Json ranks = Json::array();
  for (size_t r = 0; r < bubbles.ranks.size(); ++r) {
    const Bubbles::Rank& rank = bubbles.ranks[r];
    ranks.push_back(
        {{"peak_activations", ActivationsAsJson(timeline.slices, rank.peak_activations)},
         {"busy_us", Microseconds(rank.busy_ns)},
         {"idle_us", Microseconds(rank.idle_ns)},
         {"causes_us", CausesAsJson(causes[r])}});
  }
  Json json = {{"ok", true},
               {"schedule", timeline.schedule},
               {"parameters", ParametersAsJson(timeline.parameters)},
               {"makespan_us", Microseconds(bubbles.makespan_ns)},
               {"span_us", Microseconds(bubbles.span_ns)},
               {"bubble", bubbles.rate},
               {"busiest_rank", bubbles.busiest},
               {"busiest_bubble", bubbles.busiest_rate},
               {"idlest_rank", bubbles.idlest},
               {"idlest_bubble", bubbles.idlest_rate},
               {"span_bubble", bubbles.span_rate},
               {"actions", ComputeEvents(timeline)},
               {"ranks", std::move(ranks)}};
  if (const auto steady = step.plan ? SteadyStepsOf(*step.plan, timeline) : std::nullopt) {
    json["steps"] = step.plan->steps;
    json["period_us"] = Microseconds(steady->period_ns);
    json["period_bubble"] = steady->bubble;
  }
  if (step.costs) AddOrderedFor(*step.plan, *step.costs, &json);
  if (step.asked) AddSlow(*step.asked, &json);
  return json;
}

void PrintBubbles(const Session& step, const Bubbles& bubbles, std::ostream& out) {
  constexpr int kBar = 30;
  const Timeline& timeline = *step.timeline;
  const std::string note = step.costs ? OrderNote(*step.plan, *step.costs) : "";
  out << TitleOf(timeline) << ": " << ComputeEvents(timeline) << " actions on " << timeline.ranks()
      << (timeline.ranks() == 1 ? " rank" : " ranks") << "\n";
  if (!note.empty()) out << note << "\n";
  const std::string slow = step.asked ? SlowNote(*step.asked) : "";
  if (!slow.empty()) out << slow << "\n";
  out << "\n";
  const bool alike =
      bubbles.ranks[bubbles.busiest].busy_ns == bubbles.ranks[bubbles.idlest].busy_ns;
  out << absl::StreamFormat("  makespan %13s   bubble %9s   %s\n", PrintTime(bubbles.makespan_ns),
                            PrintShare(bubbles.rate),
                            alike ? "every rank idles so long" : "ranks idle so long on average");
  if (!alike) {
    out << absl::StreamFormat("%24s   busiest %8s   rank %d\n", "",
                              PrintShare(bubbles.busiest_rate), bubbles.busiest);
    out << absl::StreamFormat("%24s   idlest %9s   rank %d\n", "", PrintShare(bubbles.idlest_rate),
                              bubbles.idlest);
  }
  out << absl::StreamFormat("  span     %13s   busiest %8s   from a rank's start to its end\n",
                            PrintTime(bubbles.span_ns), PrintShare(bubbles.span_rate));
  if (const auto steady = step.plan ? SteadyStepsOf(*step.plan, timeline) : std::nullopt) {
    out << absl::StreamFormat("  period   %13s   bubble %9s   a step, from the second one on\n",
                              PrintTime(steady->period_ns), PrintShare(steady->bubble));
  }
  out << "\n";
  out << absl::StreamFormat("  rank %13s %13s  peak  busy\n", "busy", "idle");
  for (size_t r = 0; r < bubbles.ranks.size(); ++r) {
    const Bubbles::Rank& rank = bubbles.ranks[r];
    const double share =
        bubbles.makespan_ns == 0 ? 0 : static_cast<double>(rank.busy_ns) / bubbles.makespan_ns;
    out << absl::StreamFormat("  %4d %13s %13s %5s  %s %5.1f %%\n", r, PrintTime(rank.busy_ns),
                              PrintTime(rank.idle_ns),
                              PrintActivations(timeline.slices, rank.peak_activations),
                              PrintBar(share, kBar), 100 * share);
  }
}

void PrintCauses(const CausesByRank& of_ranks, std::ostream& out) {
  constexpr int kBar = 30;
  std::array<int64_t, kIdleCauses> sums = {};
  int64_t all_ns = 0;
  for (const auto& causes : of_ranks) {
    for (int c = 0; c < kIdleCauses; ++c) {
      sums[c] += causes[c];
      all_ns += causes[c];
    }
  }
  if (all_ns == 0) return;
  out << "\n  idle because of  all ranks\n";
  for (int c = 0; c < kIdleCauses; ++c) {
    if (sums[c] == 0) continue;
    const double share = static_cast<double>(sums[c]) / static_cast<double>(all_ns);
    out << absl::StreamFormat("  %-12s %13s  %s %5.1f %%\n", NameOf(static_cast<IdleCause>(c)),
                              PrintTime(sums[c]), PrintBar(share, kBar), 100 * share);
  }
}

void PrintCausesOfRanks(const Analysis& analysis, std::ostream& out) {
  std::array<bool, kIdleCauses> seen = {};
  for (const auto& causes : analysis.causes) {
    for (int c = 0; c < kIdleCauses; ++c) seen[c] = seen[c] || causes[c] > 0;
  }
  out << "\n  idle";
  for (int c = 0; c < kIdleCauses; ++c) {
    if (seen[c]) out << absl::StreamFormat(" %13s", NameOf(static_cast<IdleCause>(c)));
  }
  out << "\n";
  for (size_t r = 0; r < analysis.causes.size(); ++r) {
    out << absl::StreamFormat("  %4d", r);
    for (int c = 0; c < kIdleCauses; ++c) {
      if (seen[c]) out << absl::StreamFormat(" %13s", PrintTime(analysis.causes[r][c]));
    }
    out << "\n";
  }
}

}  // namespace stringline
