#include "schedlang/costs/step_length.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/costs/microbatch_shares.h"

namespace stringline {
namespace {

// The sum, and the largest cost in the sum. As double: no integer may hold the sum.
class LengthSum {
 public:
  void Add(const char* key, const Plan& plan, StageId stage, int64_t ns, double times) {
    sum_ns_ += static_cast<double>(ns) * times;
    if (ns <= most_ns_) return;
    most_ns_ = ns;
    largest_ = absl::StrFormat("%s of stage %s takes %.4g s", key, PrintStage(plan.pipes, stage),
                               static_cast<double>(ns) * 1e-9);
  }
  double sum_ns() const { return sum_ns_; }
  const std::string& largest() const { return largest_; }

 private:
  double sum_ns_ = 0;
  int64_t most_ns_ = -1;
  std::string largest_;
};

int64_t LongestPair(const CostModel& costs, size_t stage) {
  int64_t most_ns = 0;
  for (const auto* const takes : {&costs.forward_backward, &costs.forward_input}) {
    if (!takes->empty()) most_ns = std::max(most_ns, (*takes)[stage]);
  }
  for (const auto& [group, takes_ns] : costs.overlapped) {
    if (group[0].second == static_cast<int32_t>(stage)) most_ns = std::max(most_ns, takes_ns);
  }
  return most_ns;
}

}  // namespace

absl::Status CheckStepLength(const Plan& plan, const CostModel& costs, int64_t most_ns) {
  LengthSum sum;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId id(static_cast<int32_t>(s));
    const double times = plan.microbatches_of(id) * LargestShare(costs.shares);
    const auto add = [&](const char* key, const std::vector<int64_t>& of) {
      if (!of.empty()) sum.Add(key, plan, id, of[s], times);
    };
    add("F", costs.forward);
    add("B", costs.backward);
    add("I", costs.input_gradient);
    add("W", costs.weight_gradient);
    sum.Add("F & B", plan, id, LongestPair(costs, s), times);
    for (const Edge& edge : plan.graph.Out(id)) {
      for (const ActionKind send : {ActionKind::kSendForward, ActionKind::kSendBackward}) {
        sum.Add("the message", plan, id, HopOf(costs, edge, {.kind = send}).all_ns(), times);
      }
    }
    // Before and after each action of the stage, at the most.
    add("unshard", costs.unshard);
    add("unshard", costs.unshard);
    if (!costs.reduce.empty()) sum.Add("reduce", plan, id, costs.reduce[s], 1);
  }
  // Durations drawn at random lie within eight deviations.
  const double drawn = (1 + 8e-6 * static_cast<double>(costs.jitter)) *
                       (1 + 8e-6 * static_cast<double>(costs.microbatch_jitter));
  if (sum.sum_ns() * drawn < static_cast<double>(most_ns)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "the costs are too large: one after the other this step's actions take %.3g s, and times are "
      "counted up to %.3g s; %s (a number without a unit is a microsecond): give smaller costs, or "
      "fewer microbatches",
      sum.sum_ns() * drawn * 1e-9, static_cast<double>(most_ns) * 1e-9, sum.largest()));
}

}  // namespace stringline
