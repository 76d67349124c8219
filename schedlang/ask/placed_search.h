// The search problem of a placement, and the progress of its search.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/ask/true_value.h"
#include "schedlang/costs/costs.h"
#include "schedlang/memory/memory_limit.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/problem.h"

namespace stringline {

// The problem of a placement, and the limit of its ranks' memory.
struct PlacedProblem {
  CostModel costs;
  MemoryLimit memory;  // bytes
  search::Problem problem;
  search::Limits limits;  // with bytes
};
// `recomputes`: by stage, 1 if it recomputes; empty: as the costs say. Errors: those of ProblemOf;
// costs for other stages; a limit that no order keeps.
absl::StatusOr<PlacedProblem> PlacedProblemOf(const SearchRequest& request, const StepCosts& costs,
                                              const Plan& stages,
                                              const std::vector<int64_t>& recomputes);
// The same without the question if any order keeps the limit.
absl::StatusOr<PlacedProblem> ProblemWithin(const SearchRequest& request, const StepCosts& costs,
                                            const Plan& stages,
                                            const std::vector<int64_t>& recomputes);

// InvalidArgument where a rank cannot hold one microbatch.
absl::Status CheckFits(const search::Problem& problem, const search::Limits& limits);

struct PlacedSearch {
  Plan stages;
  std::string word;  // of the place; "" where it has none
  CostModel costs;
  MemoryLimit memory;               // bytes that ranks may hold
  search::Problem problem;          // its capacities become less
  std::vector<int64_t> capacity;    // of the problem at first
  std::vector<int64_t> recomputes;  // as for PlacedProblemOf
  // Only some of several choices, or with a reduced capacity: no proof for all.
  bool is_part = false;
  std::vector<search::Words> begin;  // orders to begin with
  search::BoundParts bound;          // with all the memory, by the problem's count of time
  SearchState state;
  // The value where it is not the problem's count of time, the best orders by it, whose bytes fit,
  // and the bound on it.
  std::optional<TrueValue> value;
  search::Candidates judged;
  std::set<std::pair<int64_t, int64_t>> seen;  // the scores of candidates that were judged
  int64_t round_size = 0;                      // of ImproveByValue
  int64_t least = 0;
  search::Candidate fitting;  // the best whose bytes fit, by the problem's count of time;
  // without words: none yet
  search::Words beyond;  // the last that was better, and whose bytes did not fit
  std::vector<LibraryValue> library;
};

// Prepares request.stages[index]. If the search may choose the recomputing stages, they are chosen
// within `budget`. If it may choose the layers of stages (any_split), they are chosen for orders
// that take `split_room` of the memory at most: the checker counts more bytes than the search.
absl::StatusOr<PlacedSearch> PreparePlace(const SearchRequest& request, size_t index,
                                          const SearchBudget& budget, double split_room = 1);

// Restarts the search from the orders in `begin` and those earlier candidates which still fit.
void BeginAnew(PlacedSearch* place);

Plan LoweredOf(const PlacedSearch& place, const search::Words& words);

// By the words, the bytes above the limits of ranks, as a share of the limits; null without limits.
// Called by one thread at a time; the place has to stay.
std::function<double(const search::Words& words)> ExcessOf(const PlacedSearch& place);

// Adds orders to begin with, which may become `fitting`. False where they do not fit.
bool OfferKnown(const search::Words& words, PlacedSearch* place);

// Takes the best candidate whose bytes fit by the checker's count as `fitting` if it is better;
// without any fitting order yet, the order with the least memory, if it fits. If the best of all
// does not fit, reduces the capacities in the search and returns false.
absl::StatusOr<bool> TakeWhatFits(PlacedSearch* place);

// Goes on from `fitting` and from `beyond` within the whole capacities, by moves to better orders
// that fit by the checker's count, until the budget is used up. Does nothing without orders, or for
// those of very many actions, of which a count takes too long.
void ImproveWhatFits(const SearchBudget& budget, PlacedSearch* place);

}  // namespace stringline
