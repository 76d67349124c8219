// Which stages recompute, where a search may choose it.
//
// From all of them, one stage after the other goes the other way where that is no worse: what one
// choice is worth is told by a short search. A stage that does not recompute is quicker, and the
// orders of its rank have less room.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem.h"
#include "tools/search/rounds.h"
#include "tools/search/search_session.h"

namespace stringline {

struct RecomputeChoice {
  std::vector<int64_t> stages;       // by stage: 1 where it recomputes; empty: as the costs say
  bool is_one_of_many = false;       // others were possible
  std::vector<search::Words> begin;  // orders that were found on the way
  search::BoundParts bound;          // no choice has an order below; if there are others
};

// What request.recompute says; kAny is decided within half of `budget`. Errors: those of
// PlacedProblemOf, where no choice has an order.
absl::StatusOr<RecomputeChoice> ChooseRecompute(const SearchRequest& request,
                                                const StepCosts& costs, const Plan& stages,
                                                const SearchBudget& budget);

}  // namespace stringline
