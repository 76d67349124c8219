// Chooses the stages that recompute, if a search may choose them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/evaluator.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem.h"

namespace stringline {

struct RecomputeChoice {
  std::vector<int64_t> stages;  // by stage: 1 if it recomputes; empty: as the costs say
  bool is_one_of_many = false;  // others were possible
  search::Words words;          // the best orders found on the way; empty: none
  search::Score score;          // of these
  search::BoundParts bound;     // no choice has an order below; only with several choices
};

// The choice of request.recompute; kAny is decided within half of `budget`, and goes on from
// `before`, a choice for other layers of the stages, if its orders are not empty. Errors: those of
// PlacedProblemOf, if no choice has an order.
absl::StatusOr<RecomputeChoice> ChooseRecompute(const SearchRequest& request,
                                                const StepCosts& costs, const Plan& stages,
                                                const SearchBudget& budget,
                                                const RecomputeChoice& before = {});

}  // namespace stringline
