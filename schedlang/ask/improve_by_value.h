// Moves near the orders that are best by their true value (true_value.h), in rounds on all cores.
//
// A round is some annealings beside each other, which begin with the best orders so far. With a
// number of iterations their number, their seeds and how they are merged do not depend on the
// cores.
#pragma once

#include "schedlang/ask/placed_search.h"
#include "schedlang/ask/rounds.h"

namespace stringline {

// Goes on from the orders of a place that has values until the budget is used up, its bound is
// reached, or `goes_on` is false, which is called between rounds.
void ImproveByValue(const SearchBudget& budget, const std::function<bool()>& goes_on,
                    PlacedSearch* place);

}  // namespace stringline
