// Orders by the value that a question is about (true_value.h), where the optimiser's count of time
// is another: candidates of the optimiser get their value, and moves near the best of them are
// accepted by it.
#pragma once

#include <cstdint>
#include <functional>

#include "schedlang/ask/placed_search.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/search/search.h"

namespace stringline {

// The value of words whose bytes fit; if the place has values of its own, they are judged by them.
int64_t Judge(search::Candidate candidate, PlacedSearch* place);

// Judges the candidates found so far, if the place has values of its own and no limit of bytes.
void JudgeCandidates(PlacedSearch* place);

// The best of all whose bytes fit; without words: none yet.
const search::Candidate& BestOf(const PlacedSearch& place);

// Finds the bound on values, in at most an eighth of the time.
void FindLeast(const SearchBudget& budget, PlacedSearch* place);
// No order has a value below.
int64_t LeastOf(const PlacedSearch& place);

// Goes on from the best orders of a place that has values, in rounds on all cores, until the budget
// is used up, the bound is reached, or `goes_on` is false, which is called between rounds. A round
// is some annealings beside each other. With a number of iterations their number, their seeds and
// how they are merged do not depend on the cores.
void ImproveByValue(const SearchBudget& budget, const std::function<bool()>& goes_on,
                    PlacedSearch* place);

}  // namespace stringline
