// From what a command line asks to a schedule that was found, checked and simulated.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/plan.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem_of.h"
#include "schedlang/sim/costs.h"
#include "schedlang/timeline.h"
#include "tools/search/rounds.h"
#include "tools/session.h"

namespace stringline {

// Which stages recompute: as the costs say, or instead of that none, all, or those for which what
// is found is best.
enum class Recompute : uint8_t { kAsCosts, kNone, kAll, kAny };

struct SearchRequest {
  std::vector<Plan> stages;            // where stages may live: one plan for each
  std::optional<search::Words> begin;  // an order for stages[0] to begin with
  CostRequest costs;
  MemoryLimit memory;     // of bytes; where none is said, what the costs' capacity says
  search::Limits limits;  // without bytes
  Recompute recompute = Recompute::kAsCosts;
  bool any_split = false;  // which layers stages hold is found, too
  int layers = -1;         // of the model; -1: as its shape says
  SearchBudget budget;
};

// How far a search is, for who watches it.
struct SearchProgress {
  int64_t best = 0;
  int64_t bound = 0;
  double seconds_left = 0;
};

struct LibraryValue {
  std::string schedule;
  int64_t value = 0;  // of the objective
};

struct FoundSchedule {
  Plan plan;     // not lowered, named "found"
  Plan lowered;  // proven by the checker
  CostModel costs;
  Timeline timeline;         // simulated, with all that costs know
  search::BoundParts bound;  // why no order is below bound.sum()
  int64_t least = 0;  // no order is below; more than bound.sum() where that was found by trying
  bool any_split = false;  // `least` is that of all ways to share out the layers
  search::Objective objective = search::Objective::kMakespan;
  int64_t value = 0;  // of the objective, by the search
  int64_t iterations = 0;
  MemoryLimit memory;                 // bytes that ranks were allowed to hold
  std::vector<int> recomputing;       // stages that the search was told or chose to recompute
  std::vector<LibraryValue> library;  // what the library's schedules reach there, the best first
  bool IsProven() const { return value <= least; }
  double gap() const;
};

// Called now and then; false ends the search, which answers with what it has then.
using WatchSearch = std::function<bool(const SearchProgress&)>;

// Errors: costs that cannot be; a memory in which nothing fits; no order found.
absl::StatusOr<FoundSchedule> SearchSchedule(const SearchRequest& request,
                                             const WatchSearch& watch);

}  // namespace stringline
