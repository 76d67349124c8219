// A choice with its schedule's order: its costs, its bytes and its simulated step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/tune/choice.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/plan_cache.h"

namespace stringline::tune {

// The costs of a choice for a plan of its order, which is not lowered. Errors: costs that the plan
// cannot have.
absl::StatusOr<CostModel> CostsOfChoice(const BaseCosts& base, const Choice& choice,
                                        const Plan& written);

// The plan of the choice's order, with its split of the layers.
Plan PlanOfChoice(const BaseCosts& base, const Choice& choice, const Plan& written);

// The time behind a step, in no timeline: the optimizer's step of the rank where that takes
// longest.
int64_t BehindNs(const Plan& plan, const CostModel& costs);
// A step: the simulated time, and what follows it.
int64_t StepNs(const Plan& lowered, const CostModel& costs, const Timeline& timeline);

// The bytes of the fullest rank by the order of its list, as in blocks without gaps.
int64_t LeastBytesOf(const Plan& lowered, const CostModel& costs);
// The same as `check` counts them. Errors: those of MemoryOfRanks.
absl::StatusOr<int64_t> CheckedBytesOf(const Plan& lowered, const CostModel& costs);

struct Evaluation {
  enum class State : uint8_t { kRefused, kTooLarge, kSimulated } state = State::kRefused;
  std::string why;      // of a refusal
  int64_t step_ns = 0;  // of a simulated one
  int64_t bytes = 0;    // of the fullest rank
};

// Simulates the choice if its bytes fit into `capacity`. A step shorter than `below_ns` has its
// bytes counted as `check` does; longer ones have the least bytes.
Evaluation Evaluate(const BaseCosts& base, const Choice& choice, const PreparedPlan& prepared,
                    int64_t capacity, int64_t below_ns);

// The mean step of kUsualDraws draws of the durations, the same for every choice, and the bytes of
// the fullest rank as `check` counts them.
struct JitteredChoice {
  int64_t mean_ns = 0;
  int64_t bytes = 0;
};
absl::StatusOr<JitteredChoice> WithJitter(const BaseCosts& base, const Choice& choice,
                                          const PreparedPlan& prepared, int64_t jitter);

}  // namespace stringline::tune
