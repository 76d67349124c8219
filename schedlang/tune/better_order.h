// The optimiser on a choice: an order of its stages that is better than the library's.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/base/stop.h"
#include "schedlang/tune/choice.h"
#include "schedlang/tune/choice_costs.h"
#include "schedlang/tune/plan_cache.h"

namespace stringline::tune {

struct BetterOrder {
  std::shared_ptr<const PreparedPlan> plan;
  int64_t step_ns = 0;
  int64_t bytes = 0;  // of the fullest rank, as `check` counts them
};

// The best order found within the budget. Errors: stages that no search takes (two pipes, slices,
// too many of them), and those of SearchSchedule.
absl::StatusOr<BetterOrder> FindBetterOrder(const BaseCosts& base, const Choice& choice,
                                            const SearchBudget& budget, const Stop* stop);

}  // namespace stringline::tune
