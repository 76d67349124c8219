// The orders of a search block that may also copy to the host.
//
// The optimiser's orders of F, B, I and W become plans with D, U and R, placed within the block's
// limits by the order of the list (orders/place_within.h), and timed with copies that take as long
// as their F. A stage's choice is a sum: 1 if it recomputes, 2 if it may copy; a climb changes one
// stage after the other. The bound holds for all choices.
#pragma once

#include <optional>

#include "schedlang/elaborate/block_rules.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/elaborate/search_places.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/problem.h"
#include "schedlang/search/search.h"

namespace stringline {

// A relaxation of all choices: every stage as quick as without recomputing, holding the least.
search::Problem LeastHeld(const OrderRules& rules, const SearchPlace& place);

struct CopiedOrders {
  Plan plan;            // not lowered; its actions have no places
  search::Found found;  // with the stages' choices in `recomputes`
};
// The place's layers are known. Takes what limits.kept has. Nothing if no order fits.
std::optional<CopiedOrders> FindCopies(const OrderRules& rules, const SearchPlace& place,
                                       const search::Effort& effort, const ElaborateLimits& limits);

}  // namespace stringline
