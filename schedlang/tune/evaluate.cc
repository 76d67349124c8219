#include "schedlang/tune/evaluate.h"

#include <algorithm>

#include "schedlang/ask/jitter.h"
#include "schedlang/base/status.h"
#include "schedlang/check/live_memory.h"
#include "schedlang/report/memory_curve.h"
#include "schedlang/report/variations.h"
#include "schedlang/sim/simulate.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {

Plan PlanOfChoice(const BaseCosts& base, const Choice& choice, const Plan& written) {
  Plan plan = written;
  if (choice.light_ends) {
    plan.split = LightSplit(base.spec, choice);
  }
  return plan;
}

absl::StatusOr<CostModel> CostsOfChoice(const BaseCosts& base, const Choice& choice,
                                        const Plan& written) {
  if (!choice.light_ends) return CostsOn(base, choice, written);
  return CostsOn(base, choice, PlanOfChoice(base, choice, written));
}

int64_t BehindNs(const Plan& plan, const CostModel& costs) {
  std::vector<int64_t> of_ranks(static_cast<size_t>(plan.ranks()), 0);
  for (size_t s = 0; s < costs.behind_step.size(); ++s) {
    of_ranks[static_cast<size_t>(plan.stages[s].rank.value)] += costs.behind_step[s];
  }
  return of_ranks.empty() ? 0 : *std::max_element(of_ranks.begin(), of_ranks.end());
}

int64_t StepNs(const Plan& lowered, const CostModel& costs, const Timeline& timeline) {
  return MakespanOf(timeline) + BehindNs(lowered, costs);
}

int64_t LeastBytesOf(const Plan& lowered, const CostModel& costs) {
  const std::vector<StageSizes> sizes = SizesOfCosts(lowered, costs.memory);
  int64_t most = 0;
  for (int rank = 0; rank < lowered.ranks(); ++rank) {
    most = std::max(most, PeakBytesOf(lowered, RankId(rank), sizes).bytes);
  }
  return most;
}

absl::StatusOr<int64_t> CheckedBytesOf(const Plan& lowered, const CostModel& costs) {
  const std::vector<StageSizes> sizes = SizesOfCosts(lowered, costs.memory);
  SL_ASSIGN_OR_RETURN(const std::vector<RankMemory> ranks, MemoryOfRanks(lowered, sizes));
  int64_t most = 0;
  for (const RankMemory& rank : ranks) most = std::max(most, rank.all());
  return most;
}

Evaluation Evaluate(const BaseCosts& base, const Choice& choice, const PreparedPlan& prepared,
                    int64_t capacity, int64_t below_ns) {
  Evaluation evaluation;
  const auto refuse = [&evaluation](absl::string_view why) {
    evaluation.why = std::string(why);
    return evaluation;
  };
  if (!prepared.refused.empty()) return refuse(prepared.refused);
  const absl::StatusOr<CostModel> costs = CostsOfChoice(base, choice, prepared.written);
  if (!costs.ok()) return refuse(costs.status().message());
  evaluation.bytes = LeastBytesOf(prepared.lowered, *costs);
  evaluation.state = Evaluation::State::kTooLarge;
  if (evaluation.bytes > capacity) return evaluation;
  const absl::StatusOr<Timeline> timeline =
      Simulate(prepared.lowered, prepared.wiring, *costs, /*with_parts=*/false);
  if (!timeline.ok()) {
    evaluation.state = Evaluation::State::kRefused;
    return refuse(timeline.status().message());
  }
  evaluation.step_ns = StepNs(prepared.lowered, *costs, *timeline);
  if (evaluation.step_ns < below_ns) {
    const absl::StatusOr<int64_t> bytes = CheckedBytesOf(prepared.lowered, *costs);
    if (!bytes.ok()) {
      evaluation.state = Evaluation::State::kRefused;
      return refuse(bytes.status().message());
    }
    evaluation.bytes = *bytes;
    if (evaluation.bytes > capacity) return evaluation;
  }
  evaluation.state = Evaluation::State::kSimulated;
  return evaluation;
}

absl::StatusOr<JitteredChoice> WithJitter(const BaseCosts& base, const Choice& choice,
                                          const PreparedPlan& prepared, int64_t jitter) {
  SL_ASSIGN_OR_RETURN(CostModel costs, CostsOfChoice(base, choice, prepared.written));
  costs.jitter = jitter;
  JitteredChoice jittered;
  SL_ASSIGN_OR_RETURN(jittered.bytes, CheckedBytesOf(prepared.lowered, costs));
  int64_t sum = 0;
  for (int draw = 0; draw < kUsualDraws; ++draw) {
    const CostModel drawn = WithNoise(prepared.lowered, costs, SeedOfDraw(JitterRuns{}, draw));
    SL_ASSIGN_OR_RETURN(const Timeline timeline,
                        Simulate(prepared.lowered, prepared.wiring, drawn, /*with_parts=*/false));
    sum += StepNs(prepared.lowered, costs, timeline);
  }
  jittered.mean_ns = sum / kUsualDraws;
  return jittered;
}

}  // namespace stringline::tune
