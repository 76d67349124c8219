// From the request of a command line to a schedule that was found, checked and simulated.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/rounds.h"
#include "schedlang/ask/session.h"
#include "schedlang/ask/true_value.h"
#include "schedlang/base/stop.h"
#include "schedlang/costs/costs.h"
#include "schedlang/plan/plan.h"
#include "schedlang/plan/timeline.h"
#include "schedlang/search/lower_bound.h"
#include "schedlang/search/problem_of.h"

namespace stringline {

// Recomputing stages: as the costs say, or instead none, all, or a choice with the best order
// found.
enum class SearchRecompute : uint8_t { kAsCosts, kNone, kAll, kAny };

// Copies to the host: none; all that wait long enough, of all stages; or those of the stages, and
// of the microbatches, with which the best order was found.
enum class SearchOffload : uint8_t { kNone, kAll, kAny };

struct SearchRequest {
  std::vector<Plan> stages;            // where stages may live: one plan for each
  std::vector<std::string> places;     // these by their words, "loop 2"; empty: they have none
  std::optional<search::Words> begin;  // an order for stages[0] to begin with
  CostRequest costs;
  MemoryLimit memory;     // bytes; without a limit, the capacity in the costs
  MemoryLimit host;       // bytes of copies; without a limit, the host's capacity in the costs
  search::Limits limits;  // without bytes; its objective is the optimiser's
  SearchGoal goal;        // what is asked for
  std::string jitter;     // of draws, as SetJitter takes it
  SearchRecompute recompute = SearchRecompute::kAsCosts;
  SearchOffload offload = SearchOffload::kNone;
  bool any_split = false;  // the layers of each stage are searched, too
  int layers = -1;         // in the model; -1: as its shape says
  SearchBudget budget;
  // On this wish the search answers soon with its best order so far. Null: only its time ends it.
  const Stop* stop = nullptr;
};

// The progress of a search, for its watcher.
struct SearchProgress {
  int64_t best = 0;
  int64_t bound = 0;
  double seconds_left = 0;
};

struct LibraryValue {
  std::string schedule;
  int64_t value = 0;  // the objective's
};

struct FoundSchedule {
  std::string place;                // where its stages live, by its word; "" where it has none
  std::vector<std::string> places;  // all that were searched
  Plan plan;                        // not lowered, named "found"
  Plan lowered;                     // proven by the checker
  CostModel costs;
  StepCosts asked;           // the costs before they were resolved
  Timeline timeline;         // simulated, with all known costs
  search::BoundParts bound;  // why no order is below bound.sum()
  int64_t least = 0;         // no order is below; more than bound.sum() if found by trying
  bool any_split = false;    // `least` holds for all ways to share out the layers
  SearchGoal goal;
  int64_t value = 0;              // the goal's, as simulated
  std::vector<int64_t> drawn_ns;  // by draw
  int64_t iterations = 0;
  MemoryLimit memory;                 // the limit of the ranks' bytes
  MemoryLimit host;                   // the same of copies on their hosts
  std::vector<int64_t> bytes;         // by rank, by the checker's count; empty: not known
  std::vector<int64_t> host_bytes;    // the same on its host; empty: the plan has no copies
  std::vector<int> recomputing;       // stages that recompute, by request or by choice
  std::vector<int> remaking;          // those of them whose plan lists their R
  std::vector<int> offloading;        // stages of which a microbatch is copied to the host
  std::vector<LibraryValue> library;  // values of the library's schedules on these stages, the best
                                      // first
  bool IsProven() const { return value <= least; }
  double gap() const;
};

// Called now and then.
using WatchSearch = std::function<void(const SearchProgress&)>;

// Errors: impossible costs; too many stages; a memory in which no order fits; no order found.
absl::StatusOr<FoundSchedule> SearchSchedule(const SearchRequest& request,
                                             const WatchSearch& watch);

}  // namespace stringline
