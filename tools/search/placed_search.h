// One placement's problem, and how far the search for it is.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/memory/memory_limit.h"
#include "schedlang/plan.h"
#include "schedlang/search/problem.h"
#include "schedlang/sim/costs.h"
#include "tools/search/rounds.h"
#include "tools/search/search_session.h"

namespace stringline {

// What is to be ordered there, and how much ranks may hold.
struct PlacedProblem {
  CostModel costs;
  MemoryLimit memory;  // bytes
  search::Problem problem;
  search::Limits limits;  // with bytes
};
// `recomputes`: by stage, whether it does; empty: as the costs say. Errors: those of ProblemOf and
// of costs that are not for these stages; a limit that no order keeps to.
absl::StatusOr<PlacedProblem> PlacedProblemOf(const SearchRequest& request, const StepCosts& costs,
                                              const Plan& stages,
                                              const std::vector<int64_t>& recomputes);
// The same where it is not asked whether any order keeps to the limit.
absl::StatusOr<PlacedProblem> ProblemWithin(const SearchRequest& request, const StepCosts& costs,
                                            const Plan& stages,
                                            const std::vector<int64_t>& recomputes);

struct PlacedSearch {
  Plan stages;
  CostModel costs;
  MemoryLimit memory;               // bytes that ranks may hold
  search::Problem problem;          // whose capacities become less
  std::vector<int64_t> recomputes;  // as for PlacedProblemOf
  // Of several choices, or with less memory than there is: a proof for it is none for all.
  bool is_part = false;
  std::vector<search::Words> begin;  // orders to begin with
  search::BoundParts bound;          // with all the memory
  SearchState state;
  search::Candidate fitting;  // the best whose bytes fit; without words: none yet
  std::vector<LibraryValue> library;
};

// Of request.stages[index]. Where the search may choose which stages recompute, that is decided
// within `budget`.
absl::StatusOr<PlacedSearch> PreparePlace(const SearchRequest& request, size_t index,
                                          const SearchBudget& budget);

// With what the search begins with, and what it found that fits as well.
void BeginAnew(PlacedSearch* place);

Plan LoweredOf(const PlacedSearch& place, const search::Words& words);

// Adds orders to begin with, which may become `fitting`. False where they do not fit.
bool OfferKnown(const search::Words& words, PlacedSearch* place);

// The best candidate whose bytes fit by the checker's count becomes `fitting` if it is better, or
// where there is none yet the order that holds least, if it fits. Where the best of all does not
// fit, the search thinks from now on that ranks may hold less, and the answer is false.
absl::StatusOr<bool> TakeWhatFits(PlacedSearch* place);

}  // namespace stringline
