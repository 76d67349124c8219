// Orders that were found before, so that the same search need not be made twice.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "schedlang/search/partition.h"
#include "schedlang/search/problem.h"
#include "schedlang/search/search.h"

namespace stringline::search {

// Where they lie is not known here. Both are called from several threads.
class KeptOrders {
 public:
  virtual ~KeptOrders() = default;
  // What was kept under the key, or something else; nothing if there is none.
  virtual std::optional<Found> Find(uint64_t key) = 0;
  virtual void Keep(uint64_t key, const Found& found) = 0;
};

// All that the result of FindOrders depends on: the problem, the effort, and the optimiser itself.
uint64_t KeyOf(const Problem& problem, const Effort& effort);

// Whether these are orders for the problem, of the value that they say.
bool FitsProblem(const Problem& problem, const Found& found);

// FindOrders, or what `kept` (may be null) has of it. Of orders that are not kept, not more letters
// are looked at than `most_letters`, more or less; what was found with less than the whole effort
// is not kept.
Found FindOrdersOnce(const Problem& problem, const Effort& effort, int64_t most_letters,
                     KeptOrders* kept);

// The same for FindPlace.
Found FindPlaceOnce(absl::Span<const Partitioning> places, const Effort& effort,
                    int64_t most_letters, KeptOrders* kept);

}  // namespace stringline::search
