#include "tools/answers/ready_lines.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/sl_check.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

struct Times {
  double mean_ns = 0;
  int64_t least_ns = 0;
  int64_t most_ns = 0;
};

Times TimesOf(const std::vector<int64_t>& steps_ns) {
  const auto [least, most] = std::minmax_element(steps_ns.begin(), steps_ns.end());
  const double sum_ns = std::accumulate(steps_ns.begin(), steps_ns.end(), 0.0);
  return {sum_ns / static_cast<double>(steps_ns.size()), *least, *most};
}

// The step's time in listed order over that in ready order, by draw.
std::vector<double> GainsOf(const JitteredSteps& draws) {
  std::vector<double> gains;
  for (size_t k = 0; k < draws.ready_ns.size(); ++k) {
    const auto ready_ns = static_cast<double>(std::max<int64_t>(draws.ready_ns[k], 1));
    gains.push_back(static_cast<double>(draws.listed_ns[k]) / ready_ns);
  }
  return gains;
}

double MeanGain(const JitteredSteps& draws) {
  return TimesOf(draws.listed_ns).mean_ns / std::max(1.0, TimesOf(draws.ready_ns).mean_ns);
}

double ShareOf(int64_t millionths) { return static_cast<double>(millionths) * 1e-6; }

int64_t ListedNs(const Session& step) {
  const absl::StatusOr<int64_t> listed_ns = InListOrderNs(step);
  SL_CHECK(listed_ns.ok()) << listed_ns.status();  // the lists are proven
  return *listed_ns;
}

void PrintRow(const char* name, const std::vector<int64_t>& steps_ns, std::ostream& out) {
  const Times times = TimesOf(steps_ns);
  out << absl::StreamFormat("  %-20s %13s %13s %13s\n", name,
                            PrintTime(static_cast<int64_t>(times.mean_ns)),
                            PrintTime(times.least_ns), PrintTime(times.most_ns));
}

Json AsJson(const std::vector<int64_t>& steps_ns) {
  const Times times = TimesOf(steps_ns);
  return {{"mean", times.mean_ns * 1e-3},
          {"least", Microseconds(times.least_ns)},
          {"most", Microseconds(times.most_ns)}};
}

}  // namespace

void PrintReady(const Session& step, std::ostream& out) {
  if (!step.listed) return;
  const int64_t listed_ns = ListedNs(step);
  const int64_t makespan_ns = MakespanOf(*step.timeline);
  const double share = makespan_ns == 0 ? 0
                                        : static_cast<double>(listed_ns - makespan_ns) /
                                              static_cast<double>(makespan_ns);
  out << absl::StreamFormat(
      "\n  ready order, window %d, slack %d: in the order of its lists the step takes %s, %.2f %% "
      "%s\n",
      step.listed->window, step.listed->slack, PrintTime(listed_ns), 100 * std::abs(share),
      share < 0 ? "less" : "more");
}

void AddReady(const Session& step, Json* json) {
  if (!step.listed) return;
  (*json)["ready"] = {{"window", step.listed->window},
                      {"slack", step.listed->slack},
                      {"listed_makespan_us", Microseconds(ListedNs(step))}};
}

void PrintDraws(const CostModel& costs, const std::vector<int64_t>& listed_ns, std::ostream& out) {
  out << absl::StreamFormat("\n  jitter %s", PrintShare(ShareOf(costs.jitter)));
  if (costs.microbatch_jitter > 0) {
    out << absl::StreamFormat(", of microbatches %s", PrintShare(ShareOf(costs.microbatch_jitter)));
  }
  out << absl::StreamFormat(", %d draws\n  %-20s %13s %13s %13s\n", listed_ns.size(), "", "mean",
                            "least", "most");
  PrintRow("in the listed order", listed_ns, out);
}

Json DrawsAsJson(const CostModel& costs, const std::vector<int64_t>& listed_ns) {
  return {{"deviation", ShareOf(costs.jitter)},
          {"deviation_of_microbatches", ShareOf(costs.microbatch_jitter)},
          {"draws", listed_ns.size()},
          {"listed_us", AsJson(listed_ns)}};
}

void PrintJitter(const Session& step, const JitteredSteps& draws, std::ostream& out) {
  PrintDraws(*step.costs, draws.listed_ns, out);
  if (draws.ready_ns.empty()) return;
  PrintRow("in ready order", draws.ready_ns, out);
  const std::vector<double> gains = GainsOf(draws);
  const auto [least, most] = std::minmax_element(gains.begin(), gains.end());
  out << absl::StreamFormat("  %-20s %13.3f %13.3f %13.3f\n", "times as fast", MeanGain(draws),
                            *least, *most);
}

void AddJitter(const Session& step, const JitteredSteps& draws, Json* json) {
  Json jitter = DrawsAsJson(*step.costs, draws.listed_ns);
  if (!draws.ready_ns.empty()) {
    const std::vector<double> gains = GainsOf(draws);
    const auto [least, most] = std::minmax_element(gains.begin(), gains.end());
    jitter["ready_us"] = AsJson(draws.ready_ns);
    jitter["gain"] = {{"mean", MeanGain(draws)}, {"least", *least}, {"most", *most}};
  }
  (*json)["jitter"] = std::move(jitter);
}

}  // namespace stringline
