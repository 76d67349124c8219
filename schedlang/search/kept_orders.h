// A store of orders found before, so that the same search need not run twice.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "schedlang/search/partition.h"
#include "schedlang/search/problem.h"
#include "schedlang/search/search.h"

namespace stringline::search {

// Keeps orders in a place of its own. Both functions are called from several threads.
class KeptOrders {
 public:
  virtual ~KeptOrders() = default;
  // The entry under the key, which may be another problem's; nothing if the key is unknown.
  virtual std::optional<Found> Find(uint64_t key) = 0;
  virtual void Keep(uint64_t key, const Found& found) = 0;
};

// A hash of all inputs of FindOrders: the problem, the effort, and the version of the optimiser.
uint64_t KeyOf(const Problem& problem, const Effort& effort);

// True if the orders are complete for the problem and have the value they claim.
bool FitsProblem(const Problem& problem, const Found& found);

// FindOrders, or its result in `kept` (may be null). A search anew is limited to about
// `most_letters` letters; a result of less than the whole effort is not kept.
Found FindOrdersOnce(const Problem& problem, const Effort& effort, int64_t most_letters,
                     KeptOrders* kept);

// The same for FindPlace.
Found FindPlaceOnce(absl::Span<const Partitioning> places, const Effort& effort,
                    int64_t most_letters, KeptOrders* kept);

}  // namespace stringline::search
