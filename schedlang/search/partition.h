// Which layers of the model each stage holds, found together with the orders: for models whose
// layers differ that is worth more than the order (AdaPtis, 2509.23722).
//
// Layers stay in their order, so a partition is how many each stage has. Orders remain orders when
// a layer goes to another stage: only times and bytes change. So partitions near the best one are
// first tried with the orders that are there, and then with new ones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "schedlang/search/search.h"

namespace stringline::search {

// Layers to be shared out over stages that are where they are.
struct Partitioning {
  Partition fixed;  // as the schedule says it; empty: it is to be found
  int layers = 0;
  int stages = 0;         // of a pipe
  int least_at_ends = 1;  // layers of the first and the last stage; those between have one at least
  // The problem that a partition makes. All have the same stages on the same ranks, and a stage
  // with more layers takes no less.
  std::function<Problem(absl::Span<const int> partition)> problem_of;
  // What ranks compute at the least in every partition, in pieces that none cuts: of each layer,
  // and of what the ends do besides.
  std::vector<int64_t> pieces;
  // All that problem_of depends on.
  uint64_t key = 0;
};

// Whether it shares out all layers, as it may.
bool IsPartition(const Partitioning& of, const Partition& partition);

// As equal as the number of layers allows; the first stages have one more.
Partition EvenPartition(int layers, int stages);

// The slowest stage is as fast as it can be; `work` is that of each layer. There are no more stages
// than layers. Cost: stages times the square of layers.
Partition LeastSlowestStage(absl::Span<const int64_t> work, int stages);

// The rank that works most works as little as moving single layers achieves, and no rank must hold
// more than it may, where that is possible.
Partition BalancedPartition(const Partitioning& partitioning);

// The partition with its orders; the bound is that of all partitions. Goes on from `begin`, if it
// has a partition. Without words where no order was found for any partition that was tried.
Found FindPartition(const Partitioning& partitioning, Found begin, const Effort& effort);

// The least that the busiest of so many ranks can have of the pieces, wherever they go; where there
// are very many different ones, something less. Cost: some thousand steps a piece.
int64_t LeastBusiest(absl::Span<const int64_t> pieces, int ranks);

// What no order of any partition is below: the pieces of the busiest rank; all that is computed,
// and that ranks must wait for their first microbatch. Of few partitions, the least of their own
// bounds.
int64_t BoundOfPartitions(const Partitioning& partitioning);

// The best of several places, each with a partitioning of its own.
Found FindPlace(absl::Span<const Partitioning> places, const Effort& effort);

}  // namespace stringline::search
