// Found orders as whole plans: their R and their copies to the host placed, counted and simulated.
//
// The optimiser knows F, B, I and W. An order becomes a plan in several ways: a stage that
// recomputes does its F again in its B or I, or by R ahead of it; a stage that offloads copies no
// more microbatches than its rank's limit asks for, or all that wait long enough. The checker's
// count of bytes says which of them fit, and the simulator which of these is the shortest. The
// search's value of an order, in which copies and R take no time of their own, is below all of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedlang/ask/search_session.h"
#include "schedlang/costs/costs.h"
#include "schedlang/memory/memory_limit.h"
#include "schedlang/orders/place_within.h"
#include "schedlang/plan/plan.h"
#include "schedlang/search/problem.h"

namespace stringline {

// The orders of a plan whose groups are those of a search, beside its R, D and U.
search::Words WordsWithoutWork(const Plan& plan);

// The bytes of ranks and their hosts, by the checker's count; empty where sizes are not known.
struct CountedBytes {
  std::vector<int64_t> ranks;
  std::vector<int64_t> hosts;  // empty: the plan has no copies
};
absl::StatusOr<CountedBytes> CountBytes(const Plan& lowered, const CostModel& costs);

// The timeline of a plan that is checked here, with its groups' prices set in `costs`. Internal if
// the plan is wrong.
absl::StatusOr<Timeline> CheckedTimeline(const Plan& lowered, CostModel* costs);
// The goal, the timeline and the draws of a found plan at its costs.
absl::Status SimulateFound(const SearchRequest& request, FoundSchedule* found);

// Less is better: of equal values fewer copies.
struct WorkScore {
  int64_t value = search::kNoLimit;  // the goal's (true_value.h)
  int64_t copies = 0;                // to the host
  friend bool operator<(WorkScore a, WorkScore b) {
    return a.value != b.value ? a.value < b.value : a.copies < b.copies;
  }
};

struct PlacedWork {
  Plan plan;  // not lowered
  WorkScore score;
};

// The plans of orders for one choice of each stage.
class WorkPlacer {
 public:
  // Quick: R nowhere but right before their B or I, all ranks at one pace, and larger plans by a
  // count of bytes that packs values less tightly.
  enum class Effort : uint8_t { kQuick, kWhole };

  // Errors: costs for other stages; copies without a cost; limits of other ranks.
  static absl::StatusOr<WorkPlacer> For(const SearchRequest& request, const StepCosts& costs,
                                        const Plan& stages, std::vector<int64_t> choices);

  // The best plan of the order that is better than `below`. Nothing if none is or none fits.
  std::optional<PlacedWork> Place(const search::Words& words, WorkScore below, Effort effort) const;

  const MemoryLimit& memory() const { return memory_; }
  const MemoryLimit& host() const { return host_; }

 private:
  // An order with its R, if any, and its costs.
  struct Way {
    Plan plan;
    const CostModel* costs = nullptr;
    std::vector<ActionRoom> rooms;
  };

  WorkPlacer(const SearchRequest& request, const Plan& stages, std::vector<int64_t> choices)
      : request_(request), stages_(stages), choices_(std::move(choices)) {}

  std::vector<Way> WaysOf(const search::Words& words, Effort effort) const;
  // The plan with copies where its ranks exceed their limits; nothing if that does not suffice, or
  // no pace is given.
  std::optional<Plan> Fitting(const Way& way, const CopyPace& pace, Effort effort) const;
  std::optional<Plan> FittingWithAll(const Way& way, int64_t ahead, Effort effort) const;
  // By rank, the bytes beyond the limits of ranks and of their hosts; empty if there are none.
  struct Beyond {
    std::vector<int64_t> ranks, hosts;
    std::vector<int64_t> always;  // what a rank holds beside values
  };
  std::optional<Beyond> BeyondLimits(const Plan& plan, const CostModel& costs, Effort effort) const;
  // Takes the plan as `best` if it is better than that; returns its score.
  WorkScore Offer(const std::optional<Plan>& plan, const CostModel& costs,
                  std::optional<PlacedWork>* best) const;
  // Copies within the limits, at several paces.
  void ClimbCopies(const Way& way, bool swaps, Effort effort,
                   std::optional<PlacedWork>* best) const;

  const SearchRequest& request_;
  const Plan& stages_;
  std::vector<int64_t> choices_;
  MemoryLimit memory_, host_;
  CostModel inside_;  // F is done again in B and I
  CostModel apart_;   // by R
};

}  // namespace stringline
