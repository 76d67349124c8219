#include "schedlang/ask/what_if_copies.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/report/collective_waits.h"
#include "schedlang/report/memory_curve.h"

namespace stringline {
namespace {

CopiesWhatIf Measure(std::string name, const Plan& plan, const Timeline& timeline,
                     const CostModel& costs) {
  CopiesWhatIf result{std::move(name), MakespanOf(timeline), AfterStepNs(plan, costs)};
  if (costs.memory.empty()) return result;
  for (const MemoryCurve& rank : MemoryOver(plan, timeline, costs.memory).ranks) {
    result.peak_bytes = std::max(result.peak_bytes, rank.peak);
  }
  return result;
}

// Simulates the step as written, with these costs and this many stages gathered at once (0: as many
// as the costs say); nothing if the checker objects.
absl::StatusOr<std::optional<CopiesWhatIf>> Again(std::string name, const Session& step,
                                                  const StepCosts& asked, int resident) {
  SL_ASSIGN_OR_RETURN(CostModel costs, ResolveCosts(asked, *step.written));
  if (resident > 0) costs.collectives.resident = resident;
  Diagnostics findings;
  CheckOptions options = step.checked_for;
  const std::optional<Plan> plan =
      CheckedPlan(*step.written, std::move(options), &findings, costs.collectives);
  if (!plan) return std::nullopt;
  const Wiring wiring = WiringOf(*plan, step.checked_for.layout, costs.receive_buffers);
  SL_ASSIGN_OR_RETURN(const Timeline timeline, SimulatedStep(*plan, wiring, costs));
  return Measure(std::move(name), *plan, timeline, costs);
}

int MostStagesOfARank(const Plan& plan) {
  std::vector<int> stages(plan.ranks(), 0);
  for (const Stage& stage : plan.stages) ++stages[stage.rank.value];
  return stages.empty() ? 0 : *std::max_element(stages.begin(), stages.end());
}

struct CopiesChange {
  std::string name;
  StepCosts asked;
  int resident = 0;
};

std::vector<CopiesChange> ChangesOf(const Session& step) {
  std::vector<CopiesChange> changes;
  const StepCosts& asked = *step.asked;
  if (asked.spec.formula) {
    for (const char* const word : kShardings) {
      if (ReadSharding(word) == asked.spec.sharding.value_or(Sharding::kNone)) continue;
      changes.push_back({absl::StrCat("sharding ", word), asked});
      changes.back().asked.spec.sharding = ReadSharding(word);
    }
    constexpr int64_t kMiB = 1 << 20;
    const int64_t bucket = 4 * asked.spec.formula->model.bucket;
    changes.push_back({bucket % kMiB == 0 ? absl::StrCat("buckets of ", bucket / kMiB, " MiB")
                                          : absl::StrCat("buckets of ", bucket, " B"),
                       asked});
    changes.back().asked.spec.formula->model.bucket = bucket;
    changes.push_back({"links twice as fast", asked});
    for (const char* const key : {"bandwidth", "node.bandwidth"}) {
      auto& values = changes.back().asked.spec.values;
      if (const auto found = values.find(key); found != values.end()) found->second[0] *= 2;
    }
    for (LinkCost& link : changes.back().asked.spec.links) {
      if (link.part == LinkCost::Part::kBandwidth) link.value *= 2;
    }
  }
  const int resident = step.written ? step.written->gathers_ahead + 1 : 0;
  if (step.costs->collectives.gathers && MostStagesOfARank(*step.plan) > resident) {
    changes.push_back({absl::StrCat("gathers ", resident, " stages ahead"), asked, resident + 1});
  }
  return changes;
}

}  // namespace

absl::StatusOr<std::vector<CopiesWhatIf>> WhatIfCopies(const Session& step) {
  std::vector<CopiesWhatIf> results;
  if (!step.written || !step.asked) return results;
  const CopiesWhatIf now = Measure("", *step.plan, *step.timeline, *step.costs);
  for (CopiesChange& change : ChangesOf(step)) {
    const auto again = Again(std::move(change.name), step, change.asked, change.resident);
    if (!again.ok()) continue;  // copies that do not divide so
    if (!*again) continue;
    const CopiesWhatIf& result = **again;
    const bool same = result.makespan_ns == now.makespan_ns && result.after_ns == now.after_ns &&
                      result.peak_bytes == now.peak_bytes;
    if (!same) results.push_back(result);
  }
  return results;
}

}  // namespace stringline
